"""Which PodGroup a workload gets."""
