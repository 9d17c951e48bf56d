"""`make release`: what is published, the same bytes from the same commit, and what and whence it is."""
