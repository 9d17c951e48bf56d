"""PodCliqueSets in plans: what becomes of them, and gangs that start after others."""
