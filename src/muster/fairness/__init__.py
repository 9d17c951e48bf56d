"""Fair shares, the order between queues, and what a queue is entitled to. Pure."""
