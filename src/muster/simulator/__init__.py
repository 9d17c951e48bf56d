"""Scenarios in virtual time, and clusters and workloads to try muster with."""
