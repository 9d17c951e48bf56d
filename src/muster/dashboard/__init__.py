"""The dashboard: the cluster as a live model, its streams to viewers, and the page."""
