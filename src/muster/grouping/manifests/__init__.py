"""Grouping of objects in files: the pods that workloads will have, and their PodGroups."""
