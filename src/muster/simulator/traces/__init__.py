"""Traces: gangs and nodes from CSV files."""
