"""Inter-pod rules in a gang: affinity, anti-affinity, topology spread. A `place` is a rule's domain (decision 0007)."""
