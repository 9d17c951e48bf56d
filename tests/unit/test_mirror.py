"""The cluster as it is heard: equal to what would be read from it at any time, in whatever order the news came."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.core import Node, Pod
from muster.api.meta import Wire
from muster.api.objects import FIELDS
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.cluster.follow import Changed, Gone, News, Synced
from muster.cluster.mirror import FOLLOWED, Mirror, resource_of
from muster.cluster.store import Raw
from muster.model.snapshot import Snapshot, take
from muster.planning.cycle import plan
from tests.live import group, node, pod, queue

NOW = datetime(2026, 1, 1, tzinfo=UTC)


# one word at a time -------------------------------------------------------------------------------------------------


def test_what_is_heard_is_known_and_what_is_gone_is_not() -> None:
    mirror = Mirror()
    assert mirror.hear(Node, Changed(node("a")))
    found = mirror.get(Node, "", "a")
    assert isinstance(found, Node)
    assert found.metadata.labels == {"topology/rack": "r1"}
    assert mirror.hear(Node, Gone(node("a")))
    assert mirror.get(Node, "", "a") is None
    assert mirror.objects.nodes == ()


def test_the_same_again_is_no_change() -> None:
    mirror = Mirror()
    assert mirror.hear(Pod, Changed(pod("p", "g")))
    before, version = mirror.objects, mirror.version
    assert not mirror.hear(Pod, Changed(pod("p", "g")))
    assert not mirror.hear(Pod, Gone(pod("other", "g")))
    assert not mirror.hear(Pod, Synced("7"))
    assert mirror.objects is before
    assert mirror.version == version


def test_what_muster_does_not_read_is_no_change() -> None:
    """A kubelet that reports the same pod again wakes nobody."""
    mirror = Mirror()
    mirror.hear(Pod, Changed(pod("p", "g")))
    noisy = pod("p", "g")
    noisy["metadata"] |= {"resourceVersion": "99", "managedFields": [{"manager": "kubelet"}]}
    noisy["status"] = {"hostIP": "10.0.0.1", "containerStatuses": [{"name": "main", "restartCount": 3}]}
    assert not mirror.hear(Pod, Changed(noisy))


def test_what_muster_reads_is_a_change() -> None:
    mirror = Mirror()
    mirror.hear(Pod, Changed(pod("p", "g")))
    assert mirror.hear(Pod, Changed(pod("p", "g", node_name="a")))
    assert mirror.version == 2


def test_a_value_that_was_given_out_stays_as_it_was() -> None:
    """A plan is made in another thread while news arrive."""
    mirror = Mirror()
    mirror.hear(Pod, Changed(pod("p", "g")))
    before = mirror.objects
    mirror.hear(Pod, Changed(pod("p", "g", node_name="a")))
    mirror.hear(Pod, Changed(pod("q", "g")))
    assert [one.spec.node_name for one in before.pods] == [""]


def test_names_are_apart_by_namespace_and_kind() -> None:
    mirror = Mirror()
    there = pod("same", "g")
    there["metadata"]["namespace"] = "elsewhere"
    for kind, raw in ((Pod, pod("same", "g")), (Pod, there), (Node, node("same")), (PodGroup, group("same"))):
        assert mirror.hear(kind, Changed(raw))
    assert (len(mirror.objects.pods), len(mirror.objects.nodes), len(mirror.objects.pod_groups)) == (2, 1, 1)


def test_every_kind_that_planning_reads_is_followed() -> None:
    assert set(FOLLOWED.values()) == set(FIELDS)
    assert resource_of(Pod).plural == "pods"
    assert {resource.plural for resource in FOLLOWED if not resource.namespaced} >= {"nodes", "queues", "topologies"}


# any news -----------------------------------------------------------------------------------------------------------

PODS = st.builds(
    lambda i, gang, gpus, leaf, at: (Pod, pod(f"p{i}", gang, gpus, leaf, node_name=at)),
    st.integers(0, 7),
    st.sampled_from(["g", "h", ""]),
    st.integers(0, 3),
    st.sampled_from(["", "", "left"]),
    st.sampled_from(["", "", "a", "b", "nowhere"]),
)
NODES = st.builds(
    lambda name, rack, gpus: (Node, node(name, rack, gpus)),
    st.sampled_from("abc"),
    st.sampled_from(["r1", "r2"]),
    st.integers(0, 8),
)
GROUPS = st.builds(
    lambda name, need, where: (PodGroup, group(name, minMember=need, queue=where)),
    st.sampled_from("gh"),
    st.integers(1, 4),
    st.sampled_from(["", "team"]),
)
QUEUES = st.builds(lambda limit: (Queue, queue("team", limit=limit)), st.integers(-1, 6))
THINGS = st.one_of(PODS, PODS, NODES, GROUPS, QUEUES)
NEWS = st.lists(st.tuples(THINGS, st.sampled_from(["changed", "changed", "changed", "gone", "synced"])), max_size=30)
Told = list[tuple[tuple[type[Wire], Raw], str]]


def _news(raw: Raw, word: str) -> News:
    match word:
        case "changed":
            return Changed(raw)
        case "gone":
            return Gone(raw)
        case _:
            return Synced("1")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and bool((one == other).all())
    return repr(one) == repr(other)


def _differ(one: Snapshot, other: Snapshot) -> Iterator[str]:
    """Fields that are told apart; those that are only compared by identity are judged by the plan that comes out."""
    for name in (
        "nodes",
        "columns",
        "room",
        "used",
        "leaving",
        "strange",
        "gangs",
        "foreign",
        "class_of",
        "node_index",
    ):
        if not _same(getattr(one, name), getattr(other, name)):
            yield name
    for name in ("unsupported", "ready", "taints", "taints_of", "now"):
        if not _same(getattr(one, name), getattr(other, name)):
            yield name
    left, right = plan(one), plan(other)
    if (left.bindings, left.nominations, left.evictions) != (right.bindings, right.nominations, right.evictions):
        yield "plan"


@settings(max_examples=150)
@given(NEWS, st.randoms(use_true_random=False))
def test_the_mirror_is_the_cluster(told: Told, dice: Any) -> None:
    """After any news: as `take` of what is there now, told at once to somebody who comes late, in any order."""
    mirror, there = Mirror(), dict[tuple[type[Wire], str], Raw]()
    for (struct, raw), word in told:
        key, before, known = (struct, raw["metadata"]["name"]), mirror.objects, mirror.version
        if word == "changed":
            there[key] = raw
        elif word == "gone":
            there.pop(key, None)
        changed = mirror.hear(struct, _news(raw, word))
        assert changed == (mirror.objects != before)
        assert mirror.version == known + changed
    late, final = Mirror(), list(there.items())
    dice.shuffle(final)
    for (struct, _), raw in final:
        late.hear(struct, Changed(raw))
    assert list(_differ(mirror.snapshot(NOW), take(mirror.objects, NOW))) == []
    assert list(_differ(mirror.snapshot(NOW), late.snapshot(NOW))) == []
