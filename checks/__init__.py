"""Checks of the tree itself, run by `make check`."""
