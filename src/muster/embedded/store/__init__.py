"""Versioned objects by kind, their history, and the kinds that are served."""
