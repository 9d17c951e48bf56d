"""Which gang gets what is free, in which order."""
