"""The client of a Kubernetes API server: HTTP, credentials, watches."""
