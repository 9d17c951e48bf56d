"""Preemption for gangs that do not fit: consolidate, reclaim, preempt (P5-P8, decisions 0008 and 0018). Pure."""
