"""Answers that outlive a cycle, and searches that take longer than one."""
