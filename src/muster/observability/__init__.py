"""Metrics, health and logging, and how servers listen."""
