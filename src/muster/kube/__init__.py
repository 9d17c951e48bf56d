"""The cluster as a protocol, with its client for Kubernetes and its cache."""
