"""Bin-packs pods onto nodes, once their domains are known."""
