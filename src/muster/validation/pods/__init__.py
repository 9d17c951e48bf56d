"""Requests of pods, and which gang a pod joins."""
