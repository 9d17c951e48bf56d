"""What a platform may choose, as a frozen value."""

from msgspec import Struct


class Policy(Struct, frozen=True):
    """The settings of a plan."""

    steps: int = 200_000  # what the search for one gang may cost before the answer is `unknown` (X1)
    untouchable: frozenset[str] = frozenset()  # pods, by namespace/name, whose eviction was refused lately: they stay
