"""Older formats of PodGroups to the form of record."""
