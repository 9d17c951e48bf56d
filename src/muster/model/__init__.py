"""The cluster as a value."""
