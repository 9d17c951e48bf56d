"""Victims that move to new nodes, and the places reserved for them."""
