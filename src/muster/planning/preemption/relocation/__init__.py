"""Pods that move aside, and the places promised to them."""
