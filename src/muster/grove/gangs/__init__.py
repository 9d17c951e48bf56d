"""PodGangs: which pods they reference, when gates are lifted, the PodGroup that the scheduler reads, their status."""
