"""A set that is deleted: pods first, then what was made for them, then the set; nothing of others."""

from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, POD_GROUPS, PODS, SERVICES
from muster.grove.naming import SET_FINALIZER
from muster.grove.sets.set_deletion import ORPHAN, PODS_FIRST_SECONDS
from muster.workloads.types import Remove
from tests.support.grove import GroveCluster, clique, group, pod_clique_set
from tests.support.late_grove import LateCluster


def the_cluster(grace_seconds: float = 0) -> LateCluster:
    grove = LateCluster(grace_seconds=grace_seconds)
    grove.apply(pod_clique_set(clique("a", 2), clique("b"), groups=[group("sg", "b", replicas=2)]))
    grove.run_pods()
    grove.changes()
    return grove


def test_pods_are_deleted_first_and_every_other_object_once() -> None:
    grove = the_cluster()
    grove.delete(POD_CLIQUE_SETS, "w")
    removed = [one.resource for one in grove.changes() if isinstance(one, Remove)]
    pods = [kind for kind in removed if kind == PODS]
    assert removed[: len(pods)] == pods
    assert {POD_GANGS, POD_GROUPS, POD_CLIQUES, SERVICES} <= set(removed)
    assert grove.objects == {}


def test_the_rest_waits_for_pods_that_terminate_but_not_for_long() -> None:
    """A node that is lost must not keep a set from going."""
    grove = the_cluster(grace_seconds=3600)
    grove.delete(POD_CLIQUE_SETS, "w")
    assert {one.resource for one in grove.changes() if isinstance(one, Remove)} == {PODS}
    assert grove.names(POD_GANGS) != []
    grove.advance(PODS_FIRST_SECONDS)
    assert not grove.has(POD_CLIQUE_SETS, "w")
    assert grove.names(POD_GANGS) == grove.names(POD_GROUPS) == []


def test_the_rest_follows_the_last_pod_at_once() -> None:
    grove = the_cluster(grace_seconds=2)
    grove.delete(POD_CLIQUE_SETS, "w")
    grove.advance(2)
    assert grove.objects == {}


def test_a_deletion_that_leaves_children_alone_deletes_none() -> None:
    grove = the_cluster()
    finalizers = [SET_FINALIZER, ORPHAN]
    grove.patch(POD_CLIQUE_SETS, "w", {"metadata": {"finalizers": finalizers}})
    deleted = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    grove.patch(POD_CLIQUE_SETS, "w", deleted)
    assert not [one for one in grove.changes() if isinstance(one, Remove)]
    assert grove.named(POD_CLIQUE_SETS)["metadata"]["finalizers"] == [ORPHAN]


def test_objects_of_others_stay() -> None:
    """Whatever their names and labels say."""
    grove = GroveCluster()
    grove.apply(pod_clique_set(clique("a", 2)))
    labels = grove.labels(PODS, grove.pods()[0])
    grove.apply({"metadata": {"name": "w-0-a-mine", "namespace": "team", "labels": labels}, "spec": {}}, PODS)
    grove.delete(POD_CLIQUE_SETS, "w")
    assert grove.names(PODS) == ["w-0-a-mine"]
