"""What `muster group` says of a capture is what the live loop writes in that cluster."""

import asyncio
from pathlib import Path

import pytest

import muster
from muster.api import names
from muster.api.decoding import encode
from muster.api.resources import PODS, Resource
from muster.grouping.manifests.group_objects import group_objects
from muster.grouping.table import KINDS
from muster.workloads.expansion import expand_objects
from muster.workloads.table import CONTROLLERS
from tests.support.live.grouping import GroupingWorld
from tests.unit.grouping.manifests.manifest_examples import EXAMPLES, Raw, example

MADE = {(resource.api_version, resource.kind) for resource in CONTROLLERS}
SERVED = [
    path
    for path in sorted(EXAMPLES.glob("*.yaml"))
    if all((raw["apiVersion"], raw["kind"]) in MADE for raw in example(path))
]


def fill(world: GroupingWorld, raws: list[Raw]) -> list[Raw]:
    """The objects in the store, owners before what they own, with the uids that the store gives."""
    expansion = expand_objects(raws)
    waiting = {raw["metadata"]["uid"]: raw for raw in (*expansion.owners, *(made.pod for made in expansion.pods))}
    stored: dict[str, Raw] = {}
    while waiting:
        ready = {uid: raw for uid, raw in waiting.items() if all(ref in stored for ref in owners_of(raw))}
        assert ready
        for uid, raw in ready.items():
            stored[uid] = world.store.create(resource_of(raw), renamed(raw, stored), namespace="default")
            del waiting[uid]
    return list(stored.values())


def owners_of(raw: Raw) -> list[str]:
    return [reference["uid"] for reference in raw["metadata"].get("ownerReferences", ())]


def renamed(raw: Raw, stored: dict[str, Raw]) -> Raw:
    metadata = {name: value for name, value in raw["metadata"].items() if name not in ("uid", "creationTimestamp")}
    references = [
        {**reference, "uid": stored[reference["uid"]]["metadata"]["uid"]}
        for reference in metadata.get("ownerReferences", ())
    ]
    return {**raw, "metadata": {**metadata, "ownerReferences": references}}


def resource_of(raw: Raw) -> Resource:
    group, _, version = raw["apiVersion"].rpartition("/")
    plural = PODS.plural if raw["kind"] == "Pod" else KINDS[group, raw["kind"]].plural
    return Resource(group, version, plural, raw["kind"])


def stated(spec: Raw) -> Raw:
    """A spec without the defaults of the CRD."""
    return {name: value for name, value in spec.items() if name not in ("markUnschedulable", "schedulingBackoff")}


@pytest.mark.parametrize("path", SERVED, ids=lambda path: path.stem)
async def test_a_capture_is_grouped_as_the_live_loop_groups_the_cluster(path: Path) -> None:
    world = GroupingWorld()
    answer = group_objects(muster.objects(fill(world, example(path)))).objects
    async with world.grouping() as live, asyncio.timeout(20):
        await live.until(lambda: all(name for name, _ in world.membership().values()))
        await live.settle()
    said = {group.metadata.name: stated(encode(group.spec)) for group in answer.pod_groups}
    assert said == {name: stated(raw["spec"]) for name, raw in world.groups().items()}
    assert world.membership() == {
        pod.metadata.name: (
            pod.metadata.annotations[names.POD_GROUP],
            pod.metadata.labels.get(names.SUBGROUP, ""),
        )
        for pod in answer.pods
    }
