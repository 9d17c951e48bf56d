"""Clusters and workloads to try muster on."""
