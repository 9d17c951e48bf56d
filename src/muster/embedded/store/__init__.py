"""Versioned objects by kind, and what is served of them."""
