"""The loop that plans, binds and evicts."""
