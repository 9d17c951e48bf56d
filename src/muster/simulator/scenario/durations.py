"""Durations of scenarios as whole milliseconds, and random ones.

Rule: every gang draws from a random stream of its own, named by seed, workload, number and purpose, so that a change of
one workload, or of the policy, leaves all other draws as they were.
"""

from math import log
from random import Random

from muster.api.duration import parse_nanoseconds
from muster.simulator.scenario.types import Distribution, Duration

LONGEST_MS = 100 * 365 * 86_400 * 1000  # beyond it nothing happens


def to_ms(duration: Duration) -> int:
    """A duration in milliseconds; ValueError says what is wrong with it."""
    milliseconds = parse_nanoseconds(duration) // 10**6 if isinstance(duration, str) else round(duration * 1000)
    if not 0 <= milliseconds <= LONGEST_MS:
        raise ValueError(f"`{duration}` is {'negative' if milliseconds < 0 else 'longer than 100 years'}")
    return milliseconds


def stream(seed: int, *purpose: object) -> Random:
    """The random stream of one purpose; the same on every machine."""
    return Random("/".join(map(str, (seed, *purpose))))


def draw_ms(distribution: Distribution, random: Random) -> int:
    """One duration of a stated distribution, in milliseconds."""
    least = 0 if distribution.least is None else to_ms(distribution.least)
    most = LONGEST_MS if distribution.most is None else to_ms(distribution.most)
    return max(least, min(most, _unbounded(distribution, random, least, most)))


def _unbounded(distribution: Distribution, random: Random, least: int, most: int) -> int:
    match distribution.kind:
        case "exponential":
            mean = to_ms(distribution.mean or 0)
            return round(random.expovariate(1 / mean)) if mean else 0
        case "lognormal":
            median = to_ms(distribution.median or 0)
            return round(min(random.lognormvariate(log(median), distribution.sigma), LONGEST_MS)) if median else 0
        case "uniform":
            return round(random.uniform(least, most))
        case _:
            return to_ms(distribution.value or 0)
