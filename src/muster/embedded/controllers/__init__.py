"""The controllers of Kubernetes that scheduling depends on."""
