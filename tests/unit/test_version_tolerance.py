"""What a newer version writes does not confuse this one: unknown fields and values count as not there."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

import muster
from muster.api import names

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MEMORY = (names.STALE_SINCE, names.STALE_SUBGROUPS, names.LAST_START, names.BACKED_OFF, names.MOVED_TO)
GANG = yaml.safe_load_all("""
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "8", pods: "10"}}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g, namespace: d}
spec: {schedulingBackoff: 1, minSubGroup: 1, subGroups: [{name: a, minMember: 1}, {name: b, minMember: 1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: d, annotations: {pod-group-name: g}, labels: {kai.scheduler/subgroup-name: a}}
spec: {schedulerName: muster, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
""")
OBJECTS: list[dict[str, Any]] = list(GANG)


def plan(raws: list[dict[str, Any]]) -> dict[str, Any]:
    return muster.plan(muster.objects(raws), now=NOW).to_dict()


def changed(kind: str, **parts: Any) -> list[dict[str, Any]]:
    return [
        {**raw, **{name: {**raw.get(name, {}), **part} for name, part in parts.items()}} if raw["kind"] == kind else raw
        for raw in OBJECTS
    ]


@pytest.mark.parametrize("value", ["", "v2", "null", "7", "[]", '[{"x":1}]', '{"version":2}', '{"a":{"x":1}}', "[[1]]"])
@pytest.mark.parametrize("annotation", MEMORY)
def test_a_memory_in_another_format_counts_as_none(annotation: str, value: str) -> None:
    """S2, S4, P7: it is written anew when it is due; nothing stops."""
    assert plan(changed("PodGroup", metadata={"annotations": {annotation: value}})) == plan(OBJECTS)


def test_fields_of_a_newer_version_are_not_read() -> None:
    assert plan(OBJECTS)["bindings"], "the gang is placed"
    condition = {"type": "Newer", "status": "Maybe", "reason": "X", "since": 7}
    newer = {"fairness": {"x": [1]}, "conditions": [condition], "levels": [{"name": "", "newer": {}}]}
    assert plan(changed("PodGroup", spec={"newer": {"x": 1}}, status=newer)) == plan(OBJECTS)
    assert plan(changed("Pod", spec={"newer": [1]}, status={"newer": 1})) == plan(OBJECTS)
    assert plan(changed("Node", spec={"newer": [1]})) == plan(OBJECTS)
