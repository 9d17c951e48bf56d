"""How much one reconciliation does: a burst, after which the next reconciliation follows at once.

Rule: a burst grows with what is there, as every reconciliation counts all of it: thousands of pods take a few
reconciliations and not one for every 500. The first burst is as small as that of Kubernetes' controllers.
"""

BURST = 500  # the first one, of pods
LARGEST_BURST = 5_000  # what a workload that changes meanwhile may have to wait for


def burst_beside(existing: int, first: int = BURST) -> int:
    """How many objects one reconciliation creates or deletes beside those that are there."""
    return max(first, min(existing, LARGEST_BURST))
