"""Scenarios: what is simulated, as one typed file."""
