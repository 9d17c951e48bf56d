"""How requests become stored objects: reads, and what a write prepares before it is stored."""
