"""Controllers of the embedded cluster."""
