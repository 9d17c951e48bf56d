"""The REST API of the embedded cluster."""
