"""Who goes next: fair shares, the order between queues, and what a queue is entitled to. Pure."""
