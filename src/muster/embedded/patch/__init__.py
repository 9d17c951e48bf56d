"""Patches and server-side apply, as functions on plain values."""
