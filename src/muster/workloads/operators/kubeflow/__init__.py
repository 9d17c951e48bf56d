"""Kubeflow's training jobs: roles of replicas, each replica one pod and one service."""
