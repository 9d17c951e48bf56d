"""Rules between pods: affinity, anti-affinity and topology spread inside a gang (decision 0007)."""
