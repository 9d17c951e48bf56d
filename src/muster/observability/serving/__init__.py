"""How servers listen: limits at accept, TLS, HTTP with timeouts, and memory that is given back."""
