"""What was decided, as data (CONTRACT: `plan -o json`)."""

from typing import Any, Literal

from msgspec import Struct

from muster.model.gang import Gang

Verdict = Literal["Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid"]
Role = Literal["core", "extra"]


class Binding(Struct, frozen=True, order=True):
    """A pod and the node it goes to."""

    namespace: str
    pod: str
    node: str
    pod_group: str
    sub_group: str
    role: Role


class Refusal(Struct, frozen=True):
    """Why a gang, or a part of it, is not placed; `details` are facts, words are made in `reporting`."""

    reason: str
    sub_group: str = ""
    details: dict[str, Any] = {}


class GangPlan(Struct, frozen=True, eq=False):
    """What a cycle decided about one gang."""

    gang: Gang  # with what was placed in this cycle
    verdict: Verdict
    refusals: tuple[Refusal, ...] = ()
    domains: dict[str, str] = {}  # group -> the domain that it sits in


class Plan(Struct, frozen=True, eq=False):
    """One scheduling cycle. Lists are sorted: the same input gives the same bytes (X3)."""

    bindings: tuple[Binding, ...] = ()
    nominations: tuple[Binding, ...] = ()
    evictions: tuple[Binding, ...] = ()
    gangs: tuple[GangPlan, ...] = ()

    def gang(self, key: str) -> GangPlan:
        """What was decided about one gang, by `namespace/name`."""
        for found in self.gangs:
            if found.gang.key == key:
                return found
        known = ", ".join(found.gang.key for found in self.gangs[:12]) or "none"
        raise KeyError(f"there is no podgroup `{key}` in this plan; known: {known}")

    def verdict(self, key: str) -> Verdict:
        """The verdict on one gang."""
        return self.gang(key).verdict
