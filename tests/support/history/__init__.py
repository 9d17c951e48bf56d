"""Runs with faults on a real API server, recorded for the history checker (`tests.oracles.history`)."""
