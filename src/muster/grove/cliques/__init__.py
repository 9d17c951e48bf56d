"""PodCliques: their pods, how these are replaced by newer ones, and the status."""
