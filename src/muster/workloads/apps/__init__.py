"""Kubernetes' own workloads that run until they are deleted: Deployments, ReplicaSets, StatefulSets."""
