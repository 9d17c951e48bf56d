"""The choice of victims."""
