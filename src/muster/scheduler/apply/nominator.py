"""Writes on waiting pods where they will go, and takes it off where a plan does not repeat it (P7)."""

from collections.abc import Iterator, Mapping, Set

from msgspec import Struct

from muster.api.core import Pod
from muster.model.snapshot import member_names
from muster.planning.decision import CyclePlan
from muster.scheduler.apply.apply_result import ApplyTally
from muster.scheduler.apply.pod_api import NOT_FOUND, PodApi
from muster.scheduler.apply.write_state import Accepted, Denied, WriteResult


class Nomination(Struct, frozen=True):
    """What has to be written on a waiting pod: where it will go; an empty node: nowhere any more."""

    pod: str  # namespace/name
    node: str
    gang: str  # namespace/name


class NominationWrite(Struct, frozen=True, eq=False):
    """One nomination to write; see PendingWrite. Where it fails, the next plan repeats it."""

    nominator: "Nominator"
    nomination: Nomination
    uid: str
    term: int  # of the leadership in which it was decided
    tally: ApplyTally
    is_first: bool = True

    @property
    def owner(self) -> str:
        """One pod's nominations wait for no other pod."""
        return f"nominate {self.nomination.pod}"

    async def send(self) -> WriteResult:
        """Writes it."""
        return await self.nominator.send(self)

    async def settle(self) -> WriteResult:
        """A nomination is never unconfirmed."""
        return WriteResult.REJECTED


class Nominator:
    """Writes nominated nodes in one cluster."""

    def __init__(self, api: PodApi) -> None:
        self.api = api

    async def send(self, write: NominationWrite) -> WriteResult:
        """Writes one nomination, or takes it off the pod."""
        if not self.api.leads_in(write.term):
            return WriteResult.REJECTED
        nomination = write.nomination
        namespace, _, name = nomination.pod.partition("/")
        answer = await self.api.nominate(namespace, name, write.uid, nomination.node)
        if not isinstance(answer, Accepted):
            is_gone = isinstance(answer, Denied) and answer.status == NOT_FOUND
            if nomination.node or not is_gone:
                write.tally.add_failure(nomination.gang, f"{nomination.pod}: not nominated: {answer.message}")
            return WriteResult.REJECTED
        if nomination.node:
            self.api.observer.nominated()
            write.tally.nominated += 1
        return WriteResult.CONFIRMED


def is_nominated(pod: Pod) -> bool:
    """Whether a pod waits with a nominated node on it."""
    return bool(pod.status.nominated_node_name) and not pod.spec.node_name


def changed_nominations(plan: CyclePlan, pods: Mapping[str, Pod]) -> Iterator[Nomination]:
    """What has to be written on pods (P7): only what differs from what they carry.

    A nomination that the plan does not repeat is taken away: its gang changed or goes elsewhere, and others, schedulers
    among them, would keep the capacity free. Not so where the plan says nothing about it: the search was cut short, or
    the gang has just lost pods and is planned again when they are gone.
    """
    planned = {binding.key: binding for binding in plan.nominations}
    for name, binding in planned.items():
        if name not in pods or pods[name].status.nominated_node_name != binding.node:
            yield Nomination(name, binding.node, binding.gang)
    nominated = {name for name, pod in pods.items() if is_nominated(pod)}
    if nominated - planned.keys():
        yield from _withdrawn(plan, nominated, planned.keys())


def _withdrawn(plan: CyclePlan, nominated: set[str], planned: Set[str]) -> Iterator[Nomination]:
    losing = {eviction.gang for eviction in plan.evictions}
    bound = {binding.key for binding in plan.bindings}
    of_gangs: set[str] = set()
    for gang_plan in plan.gangs:
        gang = gang_plan.gang
        own = nominated.intersection(f"{gang.namespace}/{name}" for name in member_names(gang))
        of_gangs |= own
        if gang_plan.verdict != "Unknown" and gang.key not in losing:
            yield from (Nomination(name, "", gang.key) for name in sorted(own - planned - bound))
    for name in sorted(nominated - of_gangs - planned):
        yield Nomination(name, "", "")  # their PodGroup is gone
