"""Where objects live."""
