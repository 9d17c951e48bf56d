"""Where a gang fits."""
