"""What is valid, and what a missing value means."""
