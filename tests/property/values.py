"""Random JSON, and real manifests with random JSON in the wrong places."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests.property.trees import Dice, dice
from tests.support.factories import Raw, group, pod, podgroup

# Text and numbers that have broken readers before.
NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 2**31, 2**63, -(2**64), 10**30, 10**309, -(10**399)),
    *(0.5, -0.0, 1.0, 1e308, 5e-324, float("inf"), float("-inf"), float("nan")),
    *("", " ", "a", "g0", "g1", "\x00", "\n", "é", "١", "１", "x" * 300, "-", ".", "/", "`", "[0]"),
    *("1", "-1", "1e3", "1Gi", "500m", "1h30m", "60s", "2026-01-01T00:00:00Z", "2026-13-99T99:99:99Z", "0001-01-01"),
    *("9999-12-31T23:59:59-23:59", "preemptible", "rack", "zone", "List", "PodGroupList", "v1", "true", "null"),
    *([], {}, [None], [[]], [{}], {"": None}, {"name": "g0"}, {"items": [1]}),
)
FIELDS = (
    *("name", "namespace", "kind", "apiVersion", "metadata", "spec", "status", "labels", "items", "subGroups"),
    *(
        "subgroups",
        "topologyConstraints",
        "topologyConstraint",
        "minMember",
        "minSubGroup",
        "parent",
        "levels",
        "a",
        "",
    ),
)

BROKEN_TEXT: tuple[Any, ...] = ("\ud800", "a\udfff", {"\ud800": "a"}, ["\ud800"])  # half a pair: JSON can say it
HUGE_NUMBERS = (10**5000, -(10**5000))  # more digits than Python turns into text; YAML can say it: 0xfff…


def values(size: int = 40) -> st.SearchStrategy[Any]:
    """Any JSON value of a few levels."""
    return dice(size).map(value)


def value(drawn: Dice, deepest: int = 4) -> Any:
    """A scalar, a list or an object with fields that mean something somewhere."""
    kind = drawn.roll(4) if deepest else 0
    if kind == 2:
        return [value(drawn, deepest - 1) for _ in range(drawn.roll(4))]
    if kind == 3:
        return {_field(drawn): value(drawn, deepest - 1) for _ in range(drawn.roll(5))}
    return drawn.one_of(NASTY)


def _field(drawn: Dice) -> str:
    return drawn.one_of(FIELDS) if drawn.roll(4) else str(drawn.one_of(NASTY))[:40]


def podgroups() -> list[Raw]:
    """A PodGroup in the form of record, one in each older dialect, and a leaf of its own."""
    constraint = {"topology": "racks", "requiredTopologyLevel": "rack", "preferredTopologyLevel": "zone"}
    record = podgroup(
        group("g0", of=1, topologyConstraint=dict(constraint)),
        group("g1", 2, parent="g0"),
        group("g2", 1, parent="g0", topologyConstraint={"requiredTopologyLevel": "rack"}),
        minSubGroup=1,
        queue="team",
        priorityClassName="high",
        preemptibility="semi-preemptible",
        stalenessGracePeriod="60s",
        markUnschedulable=False,
        schedulingBackoff=1,
        topologyConstraint=dict(constraint),
    )
    record["metadata"] |= {
        "labels": {"kai.scheduler/queue": "team"},
        "annotations": {"kai.scheduler/topology": "racks"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "Job", "name": "job", "controller": True}],
    }
    record["status"] = {
        "phase": "Running",
        "running": 2,
        "resourcesStatus": {"requested": {"cpu": "2"}, "allocated": {"cpu": "2"}},
        "levels": [{"name": "", "minSubGroup": 1, "satisfied": True}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    children = podgroup(
        group("g0", 1), group("g1", 1, parent="g0"), group("g2", 3, parent="g0"), group("g3", 2), minMember=2
    )
    both = podgroup(group("g0", 3, of=1), group("g1", 3, parent="g0"), group("g2", 4, parent="g0"), minMember=3)
    sets = podgroup(
        *(group(f"g{i}", 1) for i in range(4)),
        topologyConstraints={
            "global": dict(constraint),
            "subGroups": {"g0": {"requiredTopologyLevel": "host"}},
            "subGroupSets": [{"subGroups": ["g0", "g1"], "constraint": {"requiredTopologyLevel": "rack"}}],
        },
    )
    spelt = podgroup(minMember=2)
    spelt["spec"]["subgroups"] = [group("g0", 1), group("g1", 1)]
    return [record, children, both, sets, spelt, podgroup(minMember=3)]


def cluster() -> list[Raw]:
    """One object of every other kind, such that all of them have to do with the PodGroups."""
    scope = {"metadata": {"name": "team", "labels": {"rack": "r1", "zone": "z1"}}}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": 2, "nvidia.com/gpu": 1.0}}
    sidecar = {"name": "log", "restartPolicy": "Always", "resources": copy.deepcopy(resources)}
    joined = pod("p0", "g1", on="n1", priority=1, created="2026-01-01T00:00:00Z", phase="Running", cpu="1")
    joined["spec"] |= {"initContainers": [sidecar], "overhead": {"cpu": "1m"}, "resources": copy.deepcopy(resources)}
    share = {"quota": 1, "limit": -1, "overQuotaWeight": 1.5}
    return [
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
        | copy.deepcopy(scope)
        | {"spec": {"parentQueue": "root", "resources": {"cpu": dict(share), "gpu": dict(share)}, "priority": 3}},
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "root"}, "spec": {}},
        {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "racks"}}
        | {"spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}},
        {"apiVersion": "v1", "kind": "Node"}
        | copy.deepcopy(scope)
        | {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}, "spec": {"unschedulable": False}},
        joined,
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 200},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep", "namespace": "team"}}
        | {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
    ]


def mutants(originals: list[Raw]) -> st.SearchStrategy[Raw]:
    """One of the objects with some of its values replaced, removed, doubled or renamed."""
    return dice(64).map(lambda drawn: _mutated(drawn, drawn.one_of(originals)))


def _mutated(drawn: Dice, original: Raw) -> Raw:
    raw = copy.deepcopy(original)
    for _ in range(1 + drawn.roll(4)):
        places = _places(raw)
        holder, key = places[(drawn.roll(256) * 256 + drawn.roll(256)) % len(places)]
        match drawn.roll(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 1:
                holder[_field(drawn)] = holder.pop(key)
            case _:
                holder[key] = copy.deepcopy(value(drawn, 2))
    return raw


def with_each_value(original: Raw, values: tuple[Any, ...]) -> Iterator[Raw]:
    """The object with every one of the values in every place, one at a time; it is changed back after each."""
    raw = copy.deepcopy(original)
    for holder, key in _places(raw):
        before = holder[key]
        for new in values:
            holder[key] = new
            yield raw
        holder[key] = before


def _places(raw: Any) -> list[tuple[Any, Any]]:
    """Every value inside, as its holder and its key there."""
    keys = list(raw) if isinstance(raw, dict) else range(len(raw)) if isinstance(raw, list) else ()
    own = [(raw, key) for key in keys]
    inner = own + [place for key in keys for place in _places(raw[key])]
    return inner or [({"": raw}, "")]
