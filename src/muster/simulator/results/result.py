"""The result of a simulation: frames of plain columns, and figures."""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any

from msgspec import Struct

from muster.api.decoding import encode
from muster.control_characters import visible
from muster.simulator.engine.histories import DomainSamples, QueueHistory, WaitHistory
from muster.simulator.engine.timeline import Frame
from muster.simulator.results.figures import Figures
from muster.simulator.scenario.types import Scenario


class Histories(Struct, frozen=True, eq=False):
    """Queues and domains over time, and why gangs waited."""

    waits: WaitHistory
    queues: QueueHistory
    domains: DomainSamples
    level: str = ""  # of the domains; empty: the cluster has no topology
    domain_names: tuple[str, ...] = ()


class Result(Struct, frozen=True, eq=False):
    """What a simulation found. A frame has a list for each column, all of equal length."""

    scenario: Scenario
    reached_seconds: float  # of virtual time
    is_complete: bool  # False: it was stopped before its end
    gangs: Frame  # one row a gang, in the order of arrival
    events: Frame  # one row an event
    timeline: Frame  # one row for every moment at which something happened
    cycles: Frame  # one row for every plan
    figures: Figures
    histories: Histories  # what a report shows besides
    means: dict[str, float]  # by column of the timeline, over the whole time; empty: no time passed
    cycle_seconds: list[float]  # by row of the cycles, CPU of the planner: it differs from run to run
    planner_times: Figures  # CPU of the planner: differs from run to run, too

    def to_dict(self, with_times: bool = False) -> dict[str, Any]:
        """What `simulate -o json` prints: the same scenario gives the same bytes, unless with times."""
        times = {"plannerTimes": self.planner_times} if with_times else {}
        return {
            "scenario": encode(self.scenario),
            "reachedSeconds": self.reached_seconds,
            "isComplete": self.is_complete,
            "figures": self.figures,
            **times,
            "gangs": self.gangs,
            "events": self.events,
        }


def to_csv(frames: Iterable[tuple[str, Frame]]) -> str:
    """Frames as CSV, each row after the name of its scenario."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for i, (name, frame) in enumerate(frames):
        if not i:
            writer.writerow(("scenario", *frame))
        writer.writerows((visible(name), *map(_cell, row)) for row in zip(*frame.values(), strict=True))
    return text.getvalue()


def _cell(value: object) -> object:
    """Empty: it has not happened."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return visible(value)
        case _:
            return value
