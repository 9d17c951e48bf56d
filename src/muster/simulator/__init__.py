"""Clusters and workloads to try muster with."""
