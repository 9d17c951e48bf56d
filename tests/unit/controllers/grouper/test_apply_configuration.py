"""What the grouper applies, and what it leaves to others."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from muster.controllers.grouper.apply_configuration import (
    configuration,
    contested_fields,
    digest,
    keep_existing,
    with_digest,
)
from muster.kube.errors import ApiError

TREE = PodGroup(
    ObjectMeta(
        name="pg",
        namespace="team",
        labels={"app": "x", "kai.scheduler/queue": "a"},
        annotations={"muster.dev/grouped-by": "Job"},
        owner_references=(OwnerReference("batch/v1", "Job", "x", "u"),),
    ),
    PodGroupSpec(
        queue="a",
        sub_groups=(
            SubGroup("leader", min_member=1),
            SubGroup("workers", min_member=7, topology_constraint=TopologyConstraint("t", "rack")),
        ),
    ),
)


def conflict(*fields: str) -> ApiError:
    causes = [{"reason": "FieldManagerConflict", "field": field, "message": "conflict"} for field in fields]
    return ApiError(409, "Conflict", "conflicts", {"causes": causes})


def test_the_configuration_is_an_object_without_defaults_and_status() -> None:
    config = configuration(TREE)
    assert (config["apiVersion"], config["kind"]) == ("scheduling.run.ai/v2alpha2", "PodGroup")
    assert config["spec"]["subGroups"][0] == {"name": "leader", "minMember": 1}
    assert "status" not in config
    assert "markUnschedulable" not in config["spec"]


def test_queue_and_queue_label_of_an_existing_podgroup_stay() -> None:
    existing = replace(
        TREE,
        metadata=replace(TREE.metadata, labels={"kai.scheduler/queue": "b", "kai.scheduler/node-pool": "p"}),
        spec=replace(TREE.spec, queue="b"),
    )
    kept = keep_existing(TREE, existing)
    assert kept.spec.queue == "b"
    assert kept.metadata.labels == {"app": "x", "kai.scheduler/queue": "b", "kai.scheduler/node-pool": "p"}
    assert keep_existing(TREE, None) == TREE


def test_fields_of_other_managers_are_left_out_and_only_these() -> None:
    yielded = contested_fields(
        conflict(
            '.spec.subGroups[name="workers"].minMember',
            '.spec.subGroups[name="workers"].topologyConstraint.requiredTopologyLevel',
            ".metadata.annotations.muster.dev/grouped-by",
            ".spec.queue",
        )
    )
    config = configuration(TREE, yielded)
    assert config["spec"] == {
        "subGroups": [{"name": "leader", "minMember": 1}, {"name": "workers", "topologyConstraint": {"topology": "t"}}]
    }
    assert config["metadata"]["annotations"] == {}
    assert config["metadata"]["labels"] == TREE.metadata.labels


def test_paths_that_lead_nowhere_change_nothing() -> None:
    for path in ("", ".", ".spec", ".nowhere.at.all", '.spec.subGroups[name="gone"].minMember', "x[="):
        expected = configuration(TREE)
        expected.pop("spec") if path == ".spec" else None
        assert configuration(TREE, {path}) == expected


def test_another_conflict_contests_no_field() -> None:
    assert contested_fields(ApiError(409, "Conflict", "the object has been modified")) == frozenset()
    assert contested_fields(ApiError(422, "Invalid", "no", {"causes": [{"field": ".spec.queue"}]})) == frozenset()


def test_the_digest_says_what_is_applied_and_nothing_else() -> None:
    noted = with_digest(TREE)
    assert noted.metadata.annotations["muster.dev/grouping"] == digest(TREE)
    reordered = replace(TREE, metadata=replace(TREE.metadata, labels=dict(reversed(TREE.metadata.labels.items()))))
    assert digest(reordered) == digest(TREE)
    for spec in (replace(TREE.spec, queue="other"), replace(TREE.spec, sub_groups=TREE.spec.sub_groups[::-1])):
        assert digest(replace(TREE, spec=spec)) != digest(TREE)


class CountedList(list[Any]):
    """Counts how often it is read from its beginning."""

    reads = 0

    def __iter__(self) -> Iterator[Any]:
        self.reads += 1
        return super().__iter__()


def test_fields_of_ten_thousand_subgroups_are_left_out_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another grouper that updates a PodGroup owns a field of each of them."""
    groups = CountedList({"name": f"g{i}", "minMember": 1} for i in range(10_000))
    monkeypatch.setattr(
        "muster.controllers.grouper.apply_configuration.encode",
        lambda _: {"metadata": {"name": "pg"}, "spec": {"subGroups": groups}},
    )
    config = configuration(TREE, [f'.spec.subGroups[name="g{i}"].minMember' for i in range(10_000)])
    assert groups.reads <= 2
    assert config["spec"]["subGroups"] == [{"name": f"g{i}"} for i in range(10_000)]
