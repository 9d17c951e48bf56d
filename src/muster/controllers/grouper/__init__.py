"""The pod grouper: PodGroups for workloads that bring none, and the pods that join them."""
