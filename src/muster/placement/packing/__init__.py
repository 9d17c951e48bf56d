"""Pods onto nodes, once their domains are known."""
