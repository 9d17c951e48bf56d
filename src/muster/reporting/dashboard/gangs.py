"""Gangs as the dashboard shows them: a row in a table, and a page. Everything is said by what the CLI calls."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from muster.api import names
from muster.api.meta import OwnerReference
from muster.api.moment import format_time
from muster.api.resources import POD_CLIQUE_SETS
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import PodState
from muster.model.gang.types import Leaf, walk_leaves
from muster.model.roles import roles_of
from muster.planning.decision import GangPlan, Verdict
from muster.reporting import plans, views
from muster.reporting.conditions import SCHEDULED
from muster.reporting.dashboard.nodes import gang_roles
from muster.reporting.dashboard.rows import (
    GangEvent,
    GangPage,
    GangRow,
    OwnerName,
    PodLine,
    TextLine,
    VerdictChange,
)
from muster.reporting.explain import helps, sentence
from muster.reporting.grove.hints import refusals_of
from muster.reporting.text import Line

VERDICTS_BY_STATUS: Mapping[str, Verdict] = {"True": "Scheduled", "Unknown": "Unknown"}
INFEASIBLE = frozenset(("NoDomain", "NoRoom", "NoNodeMatches", "RulesBetweenPods", "VolumeNotBound"))
INVALID = frozenset(("InvalidSpec",))
MOST_VERDICTS = 20  # that a record remembers


class RecordedGang(Struct, frozen=True, eq=False):
    """A gang at one moment: its row as it travels, and what its page is made of. Keeps no snapshot alive."""

    row: Raw
    plan: GangPlan  # without its snapshot
    domains: Mapping[str, str]
    reason: str
    message: str
    history: tuple[VerdictChange, ...] = ()  # newest first

    def says(self, verdict: str, reason: str) -> bool:
        """Whether this is its verdict, for this reason."""
        return self.plan.verdict == verdict and self.reason == reason

    @property
    def cost(self) -> int:
        """About how many bytes an earlier record takes."""
        members = sum(len(leaf.members) for leaf in walk_leaves(self.plan.gang.root))
        return 1_000 + len(memoryview(self.row)) + 120 * members


def gang_record(plan: GangPlan, before: RecordedGang | None = None, cycle: int = 0, at: str = "") -> RecordedGang:
    """What the plan of a cycle decided about a gang; `before`: what the one before it did."""
    kept, domains = replace(plan, snapshot=None), plan.domains
    first = next(iter(refusals_of(plan)), None)
    reason, message = ("", "") if first is None else (first.reason, sentence(first))
    history = before.history if before else ()
    message = next((each.message for each in history if each.message == message), message)  # stored once
    if before is None or not before.says(plan.verdict, reason):
        history = (VerdictChange(cycle, at, plan.verdict, reason, message), *history[: MOST_VERDICTS - 1])
    return RecordedGang(encode(gang_row(kept, domains, reason, message)), kept, domains, reason, message, history)


def stored_gang_record(gang: Gang, domains: Mapping[str, str]) -> RecordedGang:
    """A gang as its PodGroup's status has it: what the leader wrote, read by a replica that does not lead."""
    status = gang.source.status
    condition = next((each for each in (status.conditions if status else ()) if each.type == SCHEDULED), None)
    if condition is None:
        kept, reason, message = GangPlan(gang, "Waiting"), "", ""
    else:
        reason = "" if condition.reason == "Scheduled" else condition.reason
        message = condition.message
        kept = GangPlan(gang, _stored_verdict(condition.status, reason))
    return RecordedGang(encode(gang_row(kept, domains, reason, message)), kept, domains, reason, message)


def _stored_verdict(status: str, reason: str) -> Verdict:
    """The verdict behind a condition `Scheduled` with this status and reason."""
    by_reason: Verdict = "Infeasible" if reason in INFEASIBLE else "Invalid" if reason in INVALID else "Waiting"
    return VERDICTS_BY_STATUS.get(status, by_reason)


def encode(value: Struct) -> Raw:
    """A row as it travels."""
    return Raw(msgspec.json.encode(value))


def gang_row(plan: GangPlan, domains: Mapping[str, str], reason: str, message: str) -> GangRow:
    """A gang in a table, with the reason that it waits, if any."""
    gang, now, known = plan.gang, plan.gang.standing, roles_of(plan.gang)
    return GangRow(
        queue=gang.queue,
        priority=gang.priority,
        verdict=plan.verdict,
        reason=reason,
        message=message,
        placed=now.placed,
        pending=now.pending,
        needs=views.needs(gang.root),
        satisfied=now.satisfied and not gang.broken,
        core=len(known.core),
        extra=sum(map(len, known.surplus)),
        pods=sum(len(leaf.members) for leaf in walk_leaves(gang.root)) + len(gang.leftovers),
        created=format_time(datetime.fromtimestamp(gang.created, UTC)) if gang.created else "",
        preemptibility=gang.preemptibility,
        position=plan.position,
        owner=owner_of(gang),
        domain=domains.get(gang.root.name, ""),
    )


def owner_of(gang: Gang) -> OwnerName | None:
    """The workload of a gang: a PodCliqueSet where one made it, else what its PodGroup names as its owner."""
    meta = gang.source.metadata
    if names.BRIDGED in meta.annotations and (part_of := meta.labels.get(names.PART_OF)):
        return OwnerName(POD_CLIQUE_SETS.kind, gang.namespace, part_of)
    owner = _controller(meta.owner_references)
    return OwnerName(owner.kind, gang.namespace, owner.name) if owner else None


def _controller(owners: tuple[OwnerReference, ...]) -> OwnerReference | None:
    return next((owner for owner in owners if owner.controller), owners[0] if owners else None)


def shows_same(first: RecordedGang, second: RecordedGang) -> bool:
    """Whether row and page are the same, although the gang was built again."""
    return first.row == second.row and first.plan.ahead == second.plan.ahead and _pods(first) == _pods(second)


def _pods(record: RecordedGang) -> list[tuple[str, str, PodState]]:
    return [(pod.name, pod.node, pod.state) for leaf in walk_leaves(record.plan.gang.root) for pod in leaf.members]


def is_same(record: RecordedGang, plan: GangPlan) -> bool:
    """Whether a plan decided about a gang what it decided before; a gang that is the same value has not changed."""
    before = record.plan
    return (
        before.gang is plan.gang
        and before.verdict == plan.verdict
        and before.position == plan.position
        and before.ahead == plan.ahead
        and (before.refusals is plan.refusals or before.refusals == plan.refusals)
    )


# the page -----------------------------------------------------------------------------------------------------------


def gang_page(record: RecordedGang, cycle: int, events: Iterable[GangEvent] = ()) -> GangPage:
    """All about one gang. InputError: its tree is too deep for JSON."""
    gang = record.plan.gang
    data = views.data(views.inspect_gang(gang))
    tree = data.pop("tree")
    _fill(tree, record.domains, _pod_lines(gang))
    return GangPage(
        key=gang.key,
        cycle=cycle,
        row=msgspec.json.decode(record.row, type=GangRow),
        tree=tree,
        data=data,
        explain=tuple(map(text_line, plans.gang_lines(record.plan, domains=record.domains))),
        helps=tuple(_helps(record)),
        events=tuple(events),
        history=record.history,
        owner=owner_of(gang),
    )


def text_line(line: Line) -> TextLine:
    """A line of the CLI as data."""
    return tuple({"text": span.text, "role": span.role} for span in line)


def _helps(record: RecordedGang) -> Iterator[str]:
    for refusal in refusals_of(record.plan):
        yield from helps(refusal)


def _fill(tree: dict[str, Any], domains: Mapping[str, str], pods: Mapping[str, list[PodLine]]) -> None:
    """Adds domains to all groups, and pods to leaves."""
    ahead = [tree]
    while ahead:
        group = ahead.pop()
        group["domain"] = domains.get(group["name"], "")
        if group["name"] in pods:
            group["pods"] = pods[group["name"]]
        ahead += group["children"]


def _pod_lines(gang: Gang) -> dict[str, list[PodLine]]:
    known = gang_roles(gang)
    return {leaf.name: list(_leaf_lines(gang, leaf, known)) for leaf in walk_leaves(gang.root)}


def _leaf_lines(gang: Gang, leaf: Leaf, known: Mapping[str, str]) -> Iterator[PodLine]:
    for member in leaf.members:
        role = known.get(f"{gang.namespace}/{member.name}", "")
        yield PodLine(member.name, member.node, str(member.state), role)
