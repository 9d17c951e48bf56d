"""The snapshot, kept up to date at the cost of what has changed."""
