"""The Python API of muster: what `import muster` offers. Every function calls the part that does the work.

Rule: arguments are checked first, and a wrong type is an InputError that says what would be right.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Struct

from muster.api import codec
from muster.api.objects import Objects
from muster.errors import InputError
from muster.grouping.manifests.settings import GroupingSettings
from muster.grouping.manifests.types import GroupedObjects, PlannedGang, UngroupedPods
from muster.kube.manifest_files import MOST_MIB, sources
from muster.model.snapshot import Snapshot
from muster.planning import decision
from muster.planning.grove.grouped_sets import group_workloads
from muster.planning.grove.scaled_gangs import ScaledGang, plan_in_stages
from muster.planning.policy import Policy
from muster.planning.supposed_workloads import suppose_workloads
from muster.planning.whatif import Hypothesis, HypotheticalObjects
from muster.reporting import grouping, plan_diff, plans, text, whatif
from muster.reporting.grove import set_reports, set_views
from muster.reporting.grove.set_names import parse_set_name
from muster.validation.check import check
from muster.validation.context import ValidationContext
from muster.validation.problem import Problem

if TYPE_CHECKING:  # imported when a scenario is run: planning needs none of it
    from muster.simulator.results.result import Result
    from muster.simulator.scenario.types import Scenario

_context = lru_cache(maxsize=4)(ValidationContext)  # many objects are validated in the same context

SET_LIKE = 'such as `{"team-a/llama.minSubGroup": 2}`'

__all__ = [
    "Objects",
    "Plan",
    "Policy",
    "Problem",
    "WhatIf",
    "WorkloadGroups",
    "explain",
    "group",
    "load",
    "objects",
    "plan",
    "simulate",
    "validate",
    "what_if",
]


class Plan(Struct, frozen=True, eq=False):
    """What one cycle would do, and why."""

    decided: decision.CyclePlan
    snapshot: Snapshot
    grouped: GroupedObjects  # with the PodGroups and future pods of workloads
    scaled: Mapping[str, ScaledGang] = {}  # gangs of PodCliqueSets that start after another one, by `namespace/name`

    @property
    def bindings(self) -> tuple[decision.Binding, ...]:
        """Pods and the nodes they go to."""
        return self.decided.bindings

    @property
    def nominations(self) -> tuple[decision.Binding, ...]:
        """Pods and the nodes that are kept for them while victims terminate."""
        return self.decided.nominations

    @property
    def evictions(self) -> tuple[decision.Eviction, ...]:
        """Pods to evict."""
        return self.decided.evictions

    def verdict(self, key: str) -> str:
        """Of one gang, by `namespace/name`."""
        return self.decided.verdict(key)

    def set_situation(self, schedulers: Sequence[str]) -> set_reports.SetSituation:
        """What is to be said about PodCliqueSets; sets whose pods name none of these schedulers say so."""
        return set_reports.SetSituation(
            parts=self.grouped.parts,
            pods=self.grouped.objects.pods,
            gangs={gang.gang.key: gang for gang in self.decided.gangs},
            scaled=dict(self.scaled),
            is_planned=True,
            schedulers=schedulers,
        )

    def to_dict(self) -> dict[str, Any]:
        """What `plan -o json` prints."""
        return plans.data(self.decided, self.scaled)

    def lines(self) -> Iterator[text.Line]:
        """Lines of text, with roles that may become colours."""
        return plans.lines(self.decided, self.snapshot, self.scaled)


class WhatIf(Struct, frozen=True, eq=False):
    """The plan before and after a supposition. Printed, it is what `muster plan` shows."""

    supposed: HypotheticalObjects
    before: Plan
    after: Plan
    grouped: GroupedObjects  # the workloads with those that were added

    @property
    def changes(self) -> tuple[str, ...]:
        """The suppositions, in sentences."""
        return tuple(whatif.words(effect) for effect in self.supposed.effects)

    @property
    def differences(self) -> plan_diff.Differences:
        """Gangs and pods whose outcome differs."""
        return plan_diff.compare(self.before.decided, self.after.decided)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the rules about the changes."""
        return tuple(whatif.warnings(self.supposed.checked))

    def lines(self) -> Iterator[text.Line]:
        """Lines of text, with roles that may become colours."""
        return whatif.lines(self.supposed, self.before.decided, self.after.decided)

    def to_dict(self) -> dict[str, Any]:
        """What `plan -o json` prints under a supposition."""
        return whatif.data(self.supposed, self.before.decided, self.after.decided)

    def __str__(self) -> str:
        return text.plain(self.lines())


class WorkloadGroups(Struct, frozen=True, eq=False):
    """The PodGroups that workloads get. Printed, they are what `muster group` shows."""

    grouped: GroupedObjects

    @property
    def objects(self) -> Objects:
        """The objects with these PodGroups, and with the pods that do not exist yet."""
        return self.grouped.objects

    @property
    def pod_groups(self) -> tuple[PlannedGang, ...]:
        """Each with its rule, its workload, and where its minimums come from."""
        return self.grouped.gangs

    @property
    def ungrouped(self) -> tuple[UngroupedPods, ...]:
        """Pods that get none, with the reason."""
        return self.grouped.ungrouped

    def to_dict(self) -> dict[str, Any]:
        """What `group -o json` prints, without `apiVersion` and `kind`."""
        return grouping.data(self.grouped)

    def __str__(self) -> str:
        return text.plain(grouping.lines(self.grouped))


def load(*paths: str | os.PathLike[str], max_file_mib: int = MOST_MIB) -> Objects:
    """Objects from files, folders, or `-`; InputError names file, document and path."""
    for path in paths:
        _must_be("load", path, str | os.PathLike, "a path", "several are handed over one by one: `muster.load(*paths)`")
        if "\0" in str(path):
            _wrong("load", "a path without null characters", str(path).replace("\0", "\\0"))
    if type(max_file_mib) is not int or max_file_mib < 1:
        _wrong("load", "`max_file_mib` as a whole number from 1 on", max_file_mib)
    read = (document for source in sources(paths, max_file_mib) for document in codec.read(source.data, source.name))
    return codec.objects(read)


def objects(raws: Iterable[Mapping[str, Any]]) -> Objects:
    """Objects from plain dicts; `List` kinds are unfolded."""
    way_out = "put one object into a list; `muster.load(path)` reads files"
    _must_be("objects", raws, Iterable, "a list of dicts", way_out)
    if isinstance(raws, str | bytes | Mapping):
        _wrong("objects", "a list of dicts", raws, way_out)
    unfolded: list[codec.Document] = []
    for i, raw in enumerate(raws):
        if not isinstance(raw, Mapping):
            raise InputError(f"object {i}: expected a dict, got {type(raw).__name__}")
        unfolded += codec.unfold(dict(raw), f"object {i}")
    return codec.objects(unfolded)


def group(*given: Objects | str | os.PathLike[str], policy: Policy | None = None) -> WorkloadGroups:
    """The PodGroups that workloads get: of objects, or in files and folders."""
    hint = "`muster.group(objects)`, or paths one by one: `muster.group(*paths)`"
    for one in given:
        _must_be("group", one, Objects | str | os.PathLike, "muster.Objects or paths", hint)
    if any(isinstance(one, Objects) for one in given) and len(given) > 1:
        _wrong("group", "muster.Objects or paths, not both", given, hint)
    objects_ = next((one for one in given if isinstance(one, Objects)), None)
    paths = [one for one in given if not isinstance(one, Objects)]
    chosen = _policy("group", policy)
    return WorkloadGroups(group_workloads(load(*paths) if objects_ is None else objects_, _settings(chosen)))


def _settings(policy: Policy, given: GroupingSettings | None = None) -> GroupingSettings:
    return given or GroupingSettings(schedulers=policy.scheduler_names)


def plan(
    given: Objects,
    policy: Policy | None = None,
    now: datetime | None = None,
    *,
    grouping: GroupingSettings | None = None,
) -> Plan:
    """One scheduling cycle on these objects, at `now` or at the present time; it changes nothing.

    Workloads among them count with the PodGroups and pods that they will have. Scaled gangs of a PodCliqueSet are
    planned as of the moment when their base gang is scheduled.
    `grouping`: kinds beside the built-in ones, and owners that cannot be read.
    """
    _must_be_objects("plan", given)
    moment, chosen = _moment("plan", now), _policy("plan", policy)
    grouped = group_workloads(given, _settings(chosen, grouping))
    staged = plan_in_stages(grouped.objects, moment, chosen)
    return Plan(staged.decided, staged.snapshot, grouped, staged.scaled)


def explain(given: Objects, key: str, policy: Policy | None = None, now: datetime | None = None) -> str:
    """Why a gang waits, or where it is placed, and what would help. KeyError: there is no such gang.

    `pcs/NAMESPACE/NAME` is a PodCliqueSet with all of its gangs. InputError: there is no such set.
    """
    _must_be("explain", key, str, "the key of a gang, `namespace/name`")
    decided = plan(given, policy, now)
    if (named := parse_set_name(key)) is not None:
        situation = decided.set_situation(_policy("explain", policy).scheduler_names)
        return text.plain(set_views.draw_set(set_reports.report_set(situation, *named)))
    return text.plain(plans.gang_lines(decided.decided.gang(key), decided.scaled.get(key)))


def what_if(
    given: Objects,
    *,
    with_: Objects | None = None,
    without: Iterable[str] = (),
    drain: Iterable[str] = (),
    set: Mapping[str, Any] | None = None,  # noqa: A002 (the word of the command line)
    policy: Policy | None = None,
    now: datetime | None = None,
    grouping: GroupingSettings | None = None,
) -> WhatIf:
    """The plan before and after: objects added, gangs gone, nodes drained, fields set (`{"d/g.minSubGroup": 2}`).

    InputError: a change names what does not exist, or has a value of a wrong type. Refused: a rule forbids the result.
    """
    for objects_ in (given, *(() if with_ is None else (with_,))):
        _must_be_objects("what_if", objects_)
    _must_be("what_if", set, Mapping | None, "`set` as a dict", SET_LIKE)
    for path in set or ():
        _must_be("what_if", path, str, "paths in `set`", SET_LIKE)
    chosen = _policy("what_if", policy)
    settings = _settings(chosen, grouping)
    supposition = suppose_workloads(given, with_, settings)
    changes = Hypothesis(
        supposition.added, _each("without", without), tuple((set or {}).items()), _each("drain", drain)
    )
    planned = whatif.plan_both(
        supposition.before,
        supposition.base,
        changes,
        chosen.scheduler_names,
        lambda each: plan(each, policy, now, grouping=settings),
    )
    return WhatIf(planned.supposed, planned.before, planned.after, supposition.grouped)


def _each(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """A single name is read as a list of one."""
    _must_be("what_if", names, Iterable, f"`{word}` as a list of names")
    listed = (names,) if isinstance(names, str) else tuple(names)
    for name in listed:
        _must_be("what_if", name, str, f"names in `{word}`")
    return listed


def simulate(scenario: "Scenario | Mapping[str, Any] | str | os.PathLike[str]") -> "Result":
    """Runs a scenario in virtual time: a file, a dict as the file would hold it, or a Scenario that was loaded.

    Paths in a file begin at its folder, others at the current one. InputError lists all problems of the scenario.
    """
    from muster.simulator.scenario.loading import load_scenario, read_scenario
    from muster.simulator.scenario.types import Scenario
    from muster.simulator.simulate import simulate as run

    _must_be("simulate", scenario, Scenario | Mapping | str | os.PathLike, "a scenario: a path or a dict")
    if isinstance(scenario, Scenario):
        return run(scenario, Path())
    if isinstance(scenario, Mapping):
        return run(read_scenario(msgspec.json.encode(dict(scenario)), "scenario"), Path())
    return run(load_scenario(Path(scenario)), Path(scenario).parent)


def validate(raw: Any, old: Any = None, around: Objects | None = None) -> list[Problem]:
    """Every problem of a PodGroup, Queue, Topology or PodCliqueSet; as an update where `old` is given. Never raises."""
    if around is not None:
        _must_be_objects("validate", around)
    return list(check(raw, old, _context(around)))


# misuse -------------------------------------------------------------------------------------------------------------


def _must_be(function: str, value: object, kind: Any, expected: str, hint: str = "") -> None:
    if not isinstance(value, kind):
        _wrong(function, expected, value, hint)


def _wrong(function: str, expected: str, value: object, hint: str = "") -> NoReturn:
    raise InputError(f"muster.{function}: expected {expected}, got {_shown(value)}", hint=hint)


def _shown(value: object) -> str:
    """The type of a value, and a simple value itself, cut to fit into a sentence."""
    simple = isinstance(value, str | int | float) and not isinstance(value, bool)
    return f"{type(value).__name__} `{str(value)[:60]}`" if simple else type(value).__name__


def _must_be_objects(function: str, value: object) -> None:
    _must_be(function, value, Objects, "muster.Objects", "`muster.load(path)` and `muster.objects(dicts)` make them")


def _moment(function: str, now: datetime | None) -> datetime:
    """With a time zone: one without is read as UTC."""
    if now is None:
        return datetime.now(UTC)
    _must_be(function, now, datetime, "`now` as a datetime", "such as `datetime.now(UTC)`")
    return now if now.tzinfo else now.replace(tzinfo=UTC)


def _policy(function: str, policy: Policy | None) -> Policy:
    """The policy, or the default one; InputError where it has values of wrong types."""
    if policy is None:
        return Policy()
    _must_be(function, policy, Policy, "muster.Policy", "such as `muster.Policy(steps=100_000)`")
    try:
        return msgspec.convert(msgspec.structs.asdict(policy), Policy)
    except msgspec.ValidationError as error:
        raise InputError(f"muster.{function}: the policy is invalid: {error}") from None
