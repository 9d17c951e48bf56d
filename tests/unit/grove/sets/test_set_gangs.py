"""When a PodGang is created: once, with all its pods; or without those that cannot be made."""

import pytest
from msgspec.structs import replace

from muster.api.fields import items
from muster.api.resources import (
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    PODS,
    Resource,
)
from muster.grove.sets.set_gangs import MAKING_SECONDS
from muster.grove.table import GROVE
from muster.workloads.types import Create, Reconciliation, Update
from tests.support.grove import GroveCluster, clique, group, pod_clique_set

IDLE = replace(GROVE[POD_CLIQUES], reconcile=lambda *_: Reconciliation())
WITHOUT_PODS = {**GROVE, POD_CLIQUES: IDLE}  # cliques make none


def references(grove: GroveCluster, gang: str) -> list[str]:
    groups = grove.spec(POD_GANGS, gang)["podgroups"]
    return [reference["name"] for one in groups for reference in one["podReferences"]]


def test_gangs_and_their_pod_groups_are_written_once() -> None:
    """Each request that is saved here is saved once a gang: a set has thousands of them."""
    grove = GroveCluster()
    groups = [group("sg", "b", replicas=3)]
    grove.apply(pod_clique_set(clique("a", 3, 2), clique("b", 2), groups=groups, replicas=2))
    written = [one for one in grove.changes() if one.resource in (POD_GANGS, POD_GROUPS)]
    assert len([one for one in written if isinstance(one, Create)]) == 2 * 6
    assert not [one for one in written if isinstance(one, Update)]
    assert references(grove, "w-0") == sorted(references(grove, "w-0"))
    assert len(references(grove, "w-0")) == 3 + 2


def test_a_gang_waits_for_pods_that_are_being_made_but_not_for_ever() -> None:
    grove = GroveCluster(WITHOUT_PODS)
    grove.apply(pod_clique_set(clique("a", 2)))
    grove.advance(MAKING_SECONDS - 1)
    assert not grove.has(POD_GANGS, "w-0")
    grove.advance(1)
    assert references(grove, "w-0") == []


@pytest.mark.parametrize("kind", [POD_CLIQUE_SETS, POD_CLIQUES])
def test_a_gang_does_not_wait_for_pods_that_cannot_be_made(kind: Resource) -> None:
    """A quota, or a name that is taken: the status says so."""
    grove = GroveCluster(WITHOUT_PODS)
    grove.apply(pod_clique_set(clique("a", 2)))
    error = {"code": "FailedCreate", "description": "exceeded quota", "observedAt": "2026-01-01T00:00:00Z"}
    name = "w" if kind == POD_CLIQUE_SETS else "w-0-a"
    grove.patch(kind, name, {"status": {"lastErrors": [error]}})
    assert grove.has(POD_GANGS, "w-0")


def test_a_gang_does_not_wait_for_cliques_that_its_group_does_not_have() -> None:
    grove = GroveCluster()
    grove.apply(pod_clique_set(clique("a"), clique("b"), groups=[group("sg", "b", replicas=2, minimum=2)]))
    grove.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 1)
    grove.delete(POD_GANGS, "w-0")
    assert [one["name"] for one in grove.spec(POD_GANGS, "w-0")["podgroups"]] == ["w-0-a", "w-0-sg-0-b", "w-0-sg-1-b"]


def test_a_new_replica_of_an_old_set_is_written_once_too() -> None:
    grove = GroveCluster()
    grove.apply(pod_clique_set(clique("a", 2)))
    grove.advance(3600)
    grove.changes()
    grove.scale(POD_CLIQUE_SETS, "w", 2)
    written = [type(one) for one in grove.changes() if one.resource == POD_GANGS]
    assert written == [Create]
    assert len(references(grove, "w-1")) == 2
    assert len(items(grove.named(POD_GANGS, "w-1"), "spec.podgroups")) == 1
    assert len(grove.names(PODS)) == 4
