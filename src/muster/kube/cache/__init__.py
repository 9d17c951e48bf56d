"""The reflector, and the cache that it keeps up to date."""
