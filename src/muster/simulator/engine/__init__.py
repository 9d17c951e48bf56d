"""The discrete-event loop: a cluster in virtual time around the planner."""
