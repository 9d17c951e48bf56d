"""The exact tier: an integer program decides what the search leaves open."""
