"""How many pods a gang wants at a time of day. Days begin with the simulation, and last 24 hours."""

from math import ceil, cos, pi

from msgspec import Struct

from muster.simulator.scenario.durations import stream, to_ms
from muster.simulator.scenario.types import DailyScaling

DAY_MS = 86_400_000
SHORTEST_MS = 60_000  # between two changes
SMALLEST_PART = 0.01  # of a pod: less than it is rounding


class GangScaling(Struct, frozen=True):
    """The daily curve of one gang."""

    least: float  # share of the pods at the quietest time
    peak_ms: int  # from the start of a day
    every_ms: int

    def wanted(self, pods: int, at_ms: int) -> int:
        """How many of these pods are wanted then: a wave between `least` of them and all."""
        height = (1 + cos(2 * pi * ((at_ms - self.peak_ms) % DAY_MS) / DAY_MS)) / 2
        share = round(self.least + (1 - self.least) * height, 6)  # the same number on every machine
        return max(1, min(pods, ceil(pods * share - SMALLEST_PART)))

    def next_ms(self, at_ms: int) -> int:
        """When the number changes next; at the same times for all gangs."""
        return (at_ms // self.every_ms + 1) * self.every_ms


def scaling_of(scaling: DailyScaling, seed: int, gang: str) -> GangScaling | None:
    """The curve of a gang; None: its pods stay."""
    if scaling.least >= 1:
        return None
    spread_ms = to_ms(scaling.spread)
    shift_ms = stream(seed, gang, "peak").randint(-spread_ms, spread_ms) if spread_ms else 0
    return GangScaling(scaling.least, (to_ms(scaling.peak) + shift_ms) % DAY_MS, to_ms(scaling.every))
