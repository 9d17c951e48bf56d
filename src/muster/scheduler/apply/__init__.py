"""Applies plans: bindings, evictions and nominations, each followed until it is confirmed or rejected."""
