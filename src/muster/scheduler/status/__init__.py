"""Statuses, events and log lines about what a cycle decided."""
