"""Which units leave."""
