"""What we tell people."""
