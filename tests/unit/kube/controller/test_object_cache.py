"""What controllers wrote is in their cache at once, and a watch that lags changes nothing."""

from typing import Any

from muster.api.resources import PODS, REPLICA_SETS
from muster.kube.cluster import Raw
from muster.kube.controller import object_cache
from muster.kube.controller.object_cache import ObjectCache
from muster.workloads.types import Key


class Recorded:
    """A cache, what it reported, and its clock."""

    def __init__(self) -> None:
        self.changes: list[str] = []
        self.seconds = 0.0
        self.cache = ObjectCache(lambda: self.seconds, self._on_change)

    def _on_change(self, key: Key, _: Raw) -> None:
        self.changes.append(key[2])

    def pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.cache.of({"metadata": {"uid": "owner"}}, PODS)]


def pod(name: str, version: int = 1, **metadata: Any) -> Raw:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "owner", "controller": True}
    own = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**own, "ownerReferences": [owner], **metadata}}


def test_children_are_oldest_first() -> None:
    recorded = Recorded()
    for name, created in (("b", "2026-01-01T00:00:00Z"), ("a", "2026-01-01T00:00:00Z"), ("c", "2025-01-01T00:00:00Z")):
        recorded.cache.observe(PODS, pod(name, creationTimestamp=created))
    assert recorded.pods() == ["c", "a", "b"]


def test_an_older_version_changes_nothing() -> None:
    recorded = Recorded()
    recorded.cache.created(PODS, pod("a", 10))
    recorded.cache.observe(PODS, pod("a", 9))
    recorded.cache.observe(PODS, pod("a", 10))
    assert recorded.changes == ["a"]
    recorded.cache.observe(PODS, pod("a", 11))
    assert recorded.changes == ["a", "a"]


def test_a_deletion_that_was_requested_is_seen_at_once() -> None:
    recorded = Recorded()
    recorded.cache.observe(PODS, pod("a", 10))
    key = (PODS, "default", "a")
    recorded.cache.deletion_requested(key, "uid-other", "2026-01-01T00:00:00Z")
    assert "deletionTimestamp" not in (recorded.cache.get(*key) or {})["metadata"]
    recorded.cache.deletion_requested(key, "uid-a", "2026-01-01T00:00:00Z")
    assert "deletionTimestamp" in (recorded.cache.get(*key) or {})["metadata"]


def test_a_creation_that_returns_after_its_deletion_adds_nothing() -> None:
    recorded = Recorded()
    recorded.cache.observe(PODS, pod("a"))
    recorded.cache.observe_deletion(pod("a"))
    recorded.cache.created(PODS, pod("a"))
    assert recorded.pods() == []


def test_a_creation_that_no_watch_confirms_is_dropped() -> None:
    recorded = Recorded()
    recorded.cache.created(PODS, pod("a"))
    recorded.cache.created(PODS, pod("b"))
    recorded.cache.observe(PODS, pod("b"))
    recorded.seconds = object_cache.UNCONFIRMED_SECONDS + 1
    recorded.cache.expire()
    assert recorded.pods() == ["b"]


def test_another_object_of_the_same_name_replaces_the_first() -> None:
    recorded = Recorded()
    recorded.cache.observe(PODS, pod("a", 5))
    recorded.cache.observe(PODS, pod("a", 2, uid="second"))
    assert recorded.cache.find("uid-a") is None
    assert recorded.cache.find("second") == (PODS, "default", "a")


def test_an_object_that_changes_its_controller_changes_sides() -> None:
    recorded = Recorded()
    recorded.cache.observe(PODS, pod("a", 1))
    recorded.cache.observe(PODS, pod("a", 2, ownerReferences=[]))
    assert recorded.pods() == []
    assert recorded.cache.count_children("owner") == 0


def test_owners_are_walked_upwards_and_never_in_a_circle() -> None:
    recorded = Recorded()
    circle = [{"uid": "owner", "controller": True}]
    owner = {"name": "w", "namespace": "default", "uid": "owner", "resourceVersion": "1", "ownerReferences": circle}
    recorded.cache.observe(REPLICA_SETS, {"metadata": owner})
    assert list(recorded.cache.owners_of(pod("a"))) == [("owner", (REPLICA_SETS, "default", "w"))]


def test_an_object_that_claims_the_uid_of_another_does_not_take_it_along() -> None:
    recorded = Recorded()
    recorded.cache.observe(PODS, pod("a", uid="same"))
    recorded.cache.observe(PODS, pod("b", uid="same"))
    recorded.cache.observe_deletion(pod("b", uid="same"))
    assert recorded.pods() == ["a"]


def test_owners_are_followed_a_bounded_number_of_times() -> None:
    """A chain of owners costs no more than a few looks, however long somebody makes it."""
    recorded = Recorded()
    for number in range(100):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": f"uid-{number + 1}"}
        recorded.cache.observe(PODS, pod(str(number), ownerReferences=[{**owner, "controller": True}]))
    first = recorded.cache.get(PODS, "default", "0")
    assert first is not None
    assert len(list(recorded.cache.owners_of(first))) == object_cache.MOST_OWNERS


def orphans(recorded: Recorded) -> list[str]:
    return [raw["metadata"]["name"] for raw in recorded.cache.orphans(PODS)]


def replica_set(uid: str = "owner", version: int = 1) -> Raw:
    return {"metadata": {"name": "w", "namespace": "default", "uid": uid, "resourceVersion": str(version)}}


def test_children_of_an_object_that_is_gone_are_orphans_until_they_are_collected() -> None:
    recorded = Recorded()
    recorded.cache.observe(REPLICA_SETS, replica_set())
    for name in "ab":
        recorded.cache.observe(PODS, pod(name))
    assert orphans(recorded) == []
    recorded.cache.observe_deletion(replica_set())
    assert orphans(recorded) == ["a", "b"]
    recorded.cache.observe_deletion(pod("a"))
    assert orphans(recorded) == ["b"]
    recorded.cache.observe_deletion(pod("b"))
    assert orphans(recorded) == []


def test_another_object_of_the_same_name_adopts_no_orphans() -> None:
    recorded = Recorded()
    recorded.cache.observe(REPLICA_SETS, replica_set())
    recorded.cache.observe(PODS, pod("a"))
    recorded.cache.observe(REPLICA_SETS, replica_set("second", 2))
    assert orphans(recorded) == ["a"]
    recorded.cache.observe(PODS, pod("a", 2, ownerReferences=[]))
    assert orphans(recorded) == []


def test_an_object_that_is_seen_before_its_controller_is_an_orphan_until_then() -> None:
    recorded = Recorded()
    recorded.cache.observe(PODS, pod("a"))
    assert orphans(recorded) == ["a"]
    recorded.cache.observe(REPLICA_SETS, replica_set())
    assert orphans(recorded) == []


def test_an_object_that_was_made_again_between_two_lists_shows_that_the_old_one_is_gone() -> None:
    """No watch said so, and what the old one left behind has to be found."""
    recorded = Recorded()
    recorded.cache.observe(REPLICA_SETS, pod("w", uid="old"))
    recorded.cache.observe(REPLICA_SETS, pod("w", 2, uid="new"))
    assert recorded.cache.was_deleted("old")
    assert not recorded.cache.was_deleted("new")
