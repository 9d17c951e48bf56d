"""A Kubernetes in one process."""
