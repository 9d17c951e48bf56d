"""Loops that act: a plan becomes bindings, evictions and statuses."""
