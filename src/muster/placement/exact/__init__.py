"""What the search leaves open, as an integer program."""
