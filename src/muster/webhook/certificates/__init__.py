"""The webhook's certificates: sources, checks, rotation."""
