"""Loops that reconcile other kinds."""
