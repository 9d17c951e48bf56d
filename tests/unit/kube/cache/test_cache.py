"""The cache: equal to what would be listed at any time, in whatever order the events came."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api import resources
from muster.api.core import ClaimSource, EphemeralSource, Node, Pod, PriorityClass, Volume
from muster.api.decoding import decode
from muster.api.meta import Wire
from muster.api.names import NODE_POOL
from muster.api.objects import FIELDS, WATCHED_KINDS, Objects, key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.kube.cache import interning
from muster.kube.cache.cache import Cache
from muster.kube.cache.interning import PodInterner
from muster.kube.cache.reflector import ListCompleted, ObjectDeleted, ObjectUpdated, ReflectorEvent
from muster.kube.cluster import Raw
from muster.model import inter_pod_rules
from muster.model.incremental import incremental_snapshot
from muster.model.inter_pod_rules import selected_label_keys
from muster.model.snapshot import Snapshot, take, visible_labels
from muster.planning.cycle import plan
from muster.validation.shard import Shard
from tests.support.live.objects import RACK, gpu_node, gpu_pod, group, leaf, queue

NOW = datetime(2026, 1, 1, tzinfo=UTC)


# one word at a time ---------------------------------------------------------------------------------------------------


def test_updated_objects_are_stored_and_deleted_ones_are_not() -> None:
    cache = Cache()
    assert cache.handle(Node, ObjectUpdated(gpu_node("a")))
    stored = cache.get(Node, "", "a")
    assert isinstance(stored, Node)
    assert stored.metadata.labels == {"topology/rack": "r1"}
    assert cache.handle(Node, ObjectDeleted(gpu_node("a")))
    assert cache.get(Node, "", "a") is None
    assert cache.objects.nodes == ()


def test_the_same_again_is_no_change() -> None:
    cache = Cache()
    assert cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g")))
    before, version = cache.objects, cache.version
    assert not cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g")))
    assert not cache.handle(Pod, ObjectDeleted(gpu_pod("other", "g")))
    assert not cache.handle(Pod, ListCompleted("7"))
    assert cache.objects is before
    assert cache.version == version


def test_pods_are_known_by_the_gang_that_they_name() -> None:
    """N3: in whatever order they come, change their gang and go; what is not there is in no gang."""
    cache = Cache()

    def members(gang: str) -> list[str]:
        return [member.metadata.name for member in cache.pods_of(f"default/{gang}")]

    for raw in (gpu_pod("a", "g"), gpu_pod("b", "g"), gpu_pod("c", "h")):
        cache.handle(Pod, ObjectUpdated(raw))
    assert (members("g"), members("h"), members("other")) == (["a", "b"], ["c"], [])
    cache.handle(Pod, ObjectUpdated(gpu_pod("b", "h")))
    assert (members("g"), members("h")) == (["a"], ["c", "b"])
    cache.handle(Pod, ObjectDeleted(gpu_pod("a", "g")))
    cache.handle(Pod, ObjectDeleted(gpu_pod("a", "g")))
    assert (members("g"), members("h")) == ([], ["c", "b"])
    assert cache._pods_by_gang.gangs == {"default/h"}, "nothing is kept of gangs without pods"


def test_what_muster_does_not_read_is_no_change() -> None:
    """A kubelet that reports the same pod again starts no cycle."""
    cache = Cache()
    cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g")))
    noisy = gpu_pod("p", "g")
    noisy["metadata"] |= {"resourceVersion": "99", "managedFields": [{"manager": "kubelet"}]}
    noisy["status"] = {"hostIP": "10.0.0.1", "containerStatuses": [{"name": "main", "restartCount": 3}]}
    assert not cache.handle(Pod, ObjectUpdated(noisy))


def test_what_muster_reads_is_a_change() -> None:
    cache = Cache()
    cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g")))
    assert cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g", node_name="a")))
    assert cache.version == 2


def test_a_value_that_was_given_out_stays_as_it_was() -> None:
    """A plan is made in another thread while news arrive."""
    cache = Cache()
    cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g")))
    before = cache.objects
    cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g", node_name="a")))
    cache.handle(Pod, ObjectUpdated(gpu_pod("q", "g")))
    assert [one.spec.node_name for one in before.pods] == [""]


def test_names_are_apart_by_namespace_and_kind() -> None:
    cache = Cache()
    there = gpu_pod("same", "g")
    there["metadata"]["namespace"] = "elsewhere"
    for kind, raw in ((Pod, gpu_pod("same", "g")), (Pod, there), (Node, gpu_node("same")), (PodGroup, group("same"))):
        assert cache.handle(kind, ObjectUpdated(raw))
    assert (len(cache.objects.pods), len(cache.objects.nodes), len(cache.objects.pod_groups)) == (2, 1, 1)


def test_every_kind_that_planning_reads_is_followed() -> None:
    assert set(WATCHED_KINDS.values()) == set(FIELDS)
    assert WATCHED_KINDS[resources.PODS] is Pod
    assert {resource.plural for resource in WATCHED_KINDS if not resource.namespaced} >= {
        "nodes",
        "queues",
        "topologies",
    }


def test_pods_are_slim_and_share_what_they_have_in_common() -> None:
    """Annotations and volumes that no rule reads are gone; pods of one template are one but for their names."""
    cache = Cache()
    for name in ("p", "q"):
        raw = gpu_pod(name, "g", node_name="a")
        raw["metadata"]["annotations"]["big"] = "x" * 10_000
        raw["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "g", "uid": "1"}]
        raw["spec"]["volumes"] = [{"name": f"token-{name}"}, {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
        cache.handle(Pod, ObjectUpdated(raw))
    p, q = cache.objects.pods
    assert p.metadata.annotations == {"pod-group-name": "g"}
    assert p.metadata.owner_references == ()
    assert p.spec.volumes == (Volume(persistent_volume_claim=ClaimSource("c")),)
    assert p.metadata.labels is q.metadata.labels
    assert p.spec.containers is q.spec.containers


def test_what_was_expected_is_an_echo() -> None:
    """A binding as it was laid over, and statuses and notes that we wrote: no plan has to be made for them."""
    cache = Cache()
    queued = queue("team")
    for struct, raw in ((Pod, gpu_pod("p", "g")), (PodGroup, group("g", minMember=1)), (Queue, queued)):
        assert cache.handle(struct, ObjectUpdated(raw))
        assert not cache.echo, "it is new"
    seen = cache.pod("default/p")
    assert seen is not None
    cache.snapshot(NOW, {"default/p": replace(seen, spec=replace(seen.spec, node_name="a"))})
    written = group("g", minMember=1)
    written["metadata"]["annotations"] = {"kai.scheduler/last-start-timestamp": "2026-01-01T00:00:00Z"}
    written["status"] = {"phase": "Running"}
    echoes = (
        (Pod, gpu_pod("p", "g", node_name="a")),
        (PodGroup, written),
        (Queue, {**queued, "status": {"childQueues": ["x"]}}),
    )
    for struct, raw in echoes:
        assert cache.handle(struct, ObjectUpdated(raw))
        assert cache.echo
    written["metadata"]["annotations"]["muster.dev/backed-off"] = "x"
    for struct, raw in (
        (Pod, gpu_pod("p", "g", node_name="b")),
        (PodGroup, written),
        (PodGroup, group("g", minMember=2)),
    ):
        assert cache.handle(struct, ObjectUpdated(raw))
        assert not cache.echo, "another client did that"


# any news -------------------------------------------------------------------------------------------------------------

HOST = "kubernetes.io/hostname"


def _away(raw: Raw, labels: dict[str, str], where: str) -> None:
    term = {"topologyKey": where, "labelSelector": {"matchLabels": labels}}
    raw["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spread(raw: Raw, key: str) -> None:
    term = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}
    raw["spec"]["topologySpreadConstraints"] = [
        {**term, "labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
    ]


def _port(raw: Raw, address: str) -> None:
    raw["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "hostIP": address}]


TWISTS: dict[str, Callable[[Raw], Any]] = {
    "none": lambda _: None,
    "cpu": lambda raw: raw["spec"]["containers"][0]["resources"].update(requests={"cpu": "100m"}),
    "odd": lambda raw: raw["spec"]["containers"][0]["resources"].update(requests={"example.com/odd": "1"}),
    "alone": lambda raw: _away(raw, {"app": "g"}, HOST),
    "away": lambda raw: _away(raw, {"tier": "x"}, RACK),
    "tier": lambda raw: raw["metadata"]["labels"].update(tier="x"),
    "spread": lambda raw: _spread(raw, "app"),
    "port": lambda raw: _port(raw, ""),
    "port on one address": lambda raw: _port(raw, "10.0.0.1"),
    "claim": lambda raw: raw["spec"].update(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]),
    "devices": lambda raw: raw["spec"].update(resourceClaims=[{"name": "d"}]),
    "gated": lambda raw: raw["spec"].update(schedulingGates=[{"name": "x"}]),
    "leaving": lambda raw: raw["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
    "failed": lambda raw: raw.update(status={"phase": "Failed"}),
    "succeeded": lambda raw: raw.update(status={"phase": "Succeeded"}),
    "nominated": lambda raw: raw.update(status={"nominatedNodeName": "a"}),
    "urgent": lambda raw: raw["metadata"]["labels"].update({"kai.scheduler/task-priority": "5"}),
    "elsewhere": lambda raw: raw["metadata"].update(namespace="elsewhere"),
    "theirs": lambda raw: raw["spec"].update(schedulerName="another"),
}


def _drawn_pod(i: int, gang: str, gpus: int, leaf: str, at: str, twists: list[str]) -> tuple[type[Wire], Raw]:
    raw = gpu_pod(f"p{i}", gang, gpus, leaf, node_name=at)
    raw["metadata"]["uid"] = f"u{i}"
    for twist in twists:
        TWISTS[twist](raw)
    return Pod, raw


def _group(name: str, need: int, where: str, leaves: list[str], priority: str) -> tuple[type[Wire], Raw]:
    spec: Raw = {"queue": where, "priorityClassName": priority}
    tree = {"subGroups": [{"name": leaf, "minMember": need} for leaf in leaves]} if leaves else {"minMember": need}
    return PodGroup, group(name, **spec, **tree)


def _drawn_node(name: str, rack: str, gpus: int, taints: list[Raw]) -> tuple[type[Wire], Raw]:
    raw = gpu_node(name, rack, gpus)
    raw["metadata"]["labels"][HOST] = name
    return Node, {**raw, "spec": {"taints": taints}}


PODS = st.builds(
    _drawn_pod,
    st.integers(0, 9),
    st.sampled_from(["g", "h", ""]),
    st.integers(0, 3),
    st.sampled_from(["", "", "left"]),
    st.sampled_from(["", "", "a", "b", "nowhere"]),
    st.lists(st.sampled_from(sorted(TWISTS)), max_size=2),
)
NODES = st.builds(
    _drawn_node,
    st.sampled_from("abc"),
    st.sampled_from(["r1", "r2"]),
    st.integers(0, 8),
    st.sampled_from([[], [], [{"key": "k", "effect": "NoSchedule"}]]),
)
GROUPS = st.builds(
    _group,
    st.sampled_from("gh"),
    st.integers(1, 4),
    st.sampled_from(["", "team"]),
    st.sampled_from([[], [], ["left"], ["left", "right"]]),
    st.sampled_from(["", "high"]),
)
QUEUES = st.builds(lambda limit: (Queue, queue("team", limit=limit)), st.integers(-1, 6))
CLASSES = st.builds(
    lambda value: (PriorityClass, {"metadata": {"name": "high"}, "value": value}), st.sampled_from([10, 200])
)
TOPOLOGIES = st.builds(
    lambda labels: (Topology, {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": one} for one in labels]}}),
    st.sampled_from([[RACK], [RACK, HOST]]),
)
THINGS = st.one_of(PODS, PODS, PODS, NODES, NODES, GROUPS, GROUPS, QUEUES, CLASSES, TOPOLOGIES)
WORDS = st.sampled_from(["changed", "changed", "changed", "changed", "gone", "synced"])
NEWS = st.lists(st.tuples(THINGS, WORDS, st.booleans()), max_size=30)
History = list[tuple[tuple[type[Wire], Raw], str, bool]]


def news_of(raw: Raw, word: str) -> ReflectorEvent:
    match word:
        case "changed":
            return ObjectUpdated(raw)
        case "gone":
            return ObjectDeleted(raw)
        case _:
            return ListCompleted("1")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and bool((one == other).all())
    return repr(one) == repr(other)


APART = ("objects", "pods", "classes", "inter_pod_rules", "topologies", "class_of")  # compared below, each in its way


def _parts(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    """Everything in a snapshot, as values that can be compared."""
    for field in msgspec.structs.fields(Snapshot):
        if field.name not in APART:
            yield field.name, getattr(snapshot, field.name)
    selected = selected_label_keys(snapshot.pods.values())
    yield "pods", sorted(snapshot.pods.items())
    yield "class_of", sorted(snapshot.class_of.items())
    for one in snapshot.classes:
        yield f"asks {one.index}", one.requests
        yield f"outside {one.index}", visible_labels(one.pod, selected)
    between = snapshot.inter_pod_rules
    yield "rules", [rule.signature() for rule in between.rules]
    yield "marks", (between.classes, sorted(between.running.items()), between.waiting)
    yield "selected", list(between.selected.entries())
    yield "carriers", list(between.carriers.entries())
    for name, tree in sorted(snapshot.topologies.items()):
        for level in tree.levels:
            yield f"topology {name}", (level.label, level.paths, level.domain.tolist(), level.parent.tolist())
    planned = plan(snapshot)
    yield (
        "plan",
        (
            planned.bindings,
            planned.nominations,
            planned.evictions,
            [(one.verdict, one.refusals) for one in planned.gangs],
        ),
    )


def _differ(one: Snapshot, other: Snapshot) -> list[str]:
    left, right = list(_parts(one)), list(_parts(other))
    return [a[0] for a, b in zip(left, right, strict=True) if a[0] != b[0] or not _same(a[1], b[1])]


def _objects(there: Iterable[tuple[type[Wire], Raw]]) -> Objects:
    """Everything as it is, without any cache."""
    held: dict[str, Any] = {FIELDS[struct]: () for struct in WATCHED_KINDS.values()}
    for struct, raw in there:
        held[FIELDS[struct]] += (decode(raw, struct)[0],)
    return Objects(**held)


SCHEDULERS = st.sampled_from([("muster",), ("another",), ("muster", "another")])


@settings(max_examples=300)
@given(NEWS, st.randoms(use_true_random=False), st.sampled_from([0, 4096]), SCHEDULERS, st.sampled_from([0, 1, 64]))
def test_the_cache_equals_the_cluster(
    history: History, dice: Any, spare: int, names: tuple[str, ...], alone: int
) -> None:
    """After any events, and any snapshots between them: as `take` of what is there, at once and in any order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental_snapshot, "SPARE", spare)
        patch.setattr(inter_pod_rules, "MOST_ALONE", alone)
        cache, there = Cache(schedulers=names), dict[tuple[type[Wire], str, str], Raw]()
        for (struct, raw), word, look in history:
            meta = raw["metadata"]
            name, before, known = (struct, meta.get("namespace", ""), meta["name"]), cache.objects, cache.version
            if word == "changed":
                there[name] = raw
            elif word == "gone":
                there.pop(name, None)
            changed = cache.handle(struct, news_of(raw, word))
            assert changed == (cache.objects != before)
            assert cache.version == known + changed
            if look:
                cache.fold(2)
                assert _differ(cache.snapshot(NOW), take(cache.objects, NOW, names)) == []
        final = [(name[0], raw) for name, raw in there.items()]
        dice.shuffle(final)
        snapshot, whole = cache.snapshot(NOW), take(_objects(final), NOW, names)
        slim = {name: PodInterner().intern(one) for name, one in whole.pods.items()}
        assert _differ(snapshot, replace(whole, pods=slim)) == []


SHARDS = (Shard(), Shard("a"), Shard("b"))


@settings(max_examples=200)
@given(NEWS, st.lists(st.sampled_from(["", "a", "a", "b"]), min_size=30, max_size=30))
def test_the_cache_of_a_shard_equals_the_shard(history: History, pools: list[str]) -> None:
    """After any events, with nodes, gangs and queues that move between pools: as `take` of the shard's objects."""
    caches = [Cache(shard=shard) for shard in SHARDS]
    for ((struct, raw), word, look), pool in zip(history, pools, strict=False):
        labels = {**raw["metadata"].get("labels", {}), **({NODE_POOL: pool} if pool else {})}
        event = news_of({**raw, "metadata": {**raw["metadata"], "labels": labels}}, word)
        for cache, shard in zip(caches, SHARDS, strict=True):
            before = cache.snapshot(NOW)
            cache.handle(struct, event)
            if look:
                cache.fold(2)
                after = cache.snapshot(NOW)
                assert _differ(after, take(cache.objects, NOW, shard=shard)) == []
                assert not cache.echo or _differ(before, after) == [], "a plan is due"


@settings(max_examples=150)
@given(NEWS, st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["", "a", "b"]), st.booleans()), max_size=6))
def test_assumed_pods_and_pods_of_other_schedulers(history: History, sent: list[tuple[int, str, bool]]) -> None:
    """Pods that are laid over, and then not, and pods that are left out: as `take` of exactly those."""
    cache = Cache(lambda one: not isinstance(one, Pod) or one.spec.scheduler_name == "muster")
    for i, ((struct, raw), word, look) in enumerate(history):
        cache.handle(struct, news_of(raw, word))
        if not look:
            continue
        instead: dict[str, Pod] = {}
        for number, at, leaves in sent[i % 3 :]:
            seen = cache.pod(f"default/p{number}")
            if seen is not None:
                meta = replace(seen.metadata, deletion_timestamp=NOW) if leaves else seen.metadata
                instead[f"default/p{number}"] = replace(seen, spec=replace(seen.spec, node_name=at), metadata=meta)
        pods = [instead.get(key(one.metadata), one) for one in cache.objects.pods]
        ours = tuple(one for one in pods if one.spec.scheduler_name == "muster")
        snapshot = cache.snapshot(NOW, instead)
        assert _differ(snapshot, take(replace(cache.objects, pods=ours), NOW)) == []


def test_amounts_beyond_all_measure_make_no_room() -> None:
    """I2: pods that request more than an array can hold cause no error, and their sums do not become free capacity."""
    cache = Cache()
    huge = {"memory": "8E"}
    for i in range(3):
        kind, raw = _drawn_pod(i, "g", 1, "", "a" if i else "", [])
        boxes = raw["spec"]["containers"]
        raw["spec"]["containers"] = [{**boxes[0], "resources": {"requests": huge}}, {"resources": {"requests": huge}}]
        cache.handle(kind, ObjectUpdated(raw))
    for kind, raw in (_drawn_node("a", "r1", 4, []), _group("g", 1, "", [], ""), _drawn_pod(5, "g", 1, "", "", [])):
        cache.handle(kind, ObjectUpdated(raw))
    snapshot = cache.snapshot(NOW)
    assert _differ(snapshot, take(cache.objects, NOW)) == []
    assert (snapshot.free[:, snapshot.columns.index("memory")] < 0).all()
    assert [one.pod for one in plan(snapshot).bindings] == ["p5"]


def test_fields_of_a_node_that_no_rule_reads_are_no_change() -> None:
    """Agents write annotations on nodes all the time."""
    cache = Cache()
    assert cache.handle(Node, ObjectUpdated(gpu_node("a")))
    noisy = gpu_node("a")
    noisy["metadata"]["annotations"] = {"agent/seen": "now"}
    assert not cache.handle(Node, ObjectUpdated(noisy))


def test_a_label_separates_pod_classes_once_a_rule_reads_it() -> None:
    cache = Cache()
    seen = _drawn_pod(1, "g", 1, "", "a", ["tier"]), _drawn_pod(2, "g", 1, "", "a", [])
    for kind, raw in (_drawn_node("a", "r1", 4, []), _group("g", 1, "", [], ""), *seen):
        cache.handle(kind, ObjectUpdated(raw))
    assert len(cache.snapshot(NOW).classes) == 1
    cache.handle(Pod, ObjectUpdated(_drawn_pod(3, "g", 1, "", "", ["away"])[1]))
    snapshot = cache.snapshot(NOW)
    assert snapshot.class_of["default/p1"] != snapshot.class_of["default/p2"]
    cache.handle(Pod, ObjectDeleted(gpu_pod("p3", "g")))
    assert len(cache.snapshot(NOW).classes) == 1


def test_a_snapshot_that_was_given_out_stays_as_it_was() -> None:
    cache = Cache()
    for kind, raw in (
        (Node, gpu_node("a")),
        (PodGroup, group("g", minMember=1)),
        (Pod, gpu_pod("p", "g", node_name="a")),
    ):
        cache.handle(kind, ObjectUpdated(raw))
    first = cache.snapshot(NOW)
    before = repr(list(_parts(first)))
    cache.handle(Pod, ObjectUpdated(gpu_pod("q", "g", 1, node_name="a")))
    cache.handle(Pod, ObjectDeleted(gpu_pod("p", "g")))
    cache.snapshot(NOW)
    assert repr(list(_parts(first))) == before


def same(cache: Cache) -> bool:
    """As if every event had come at once."""
    return _differ(cache.snapshot(NOW), take(cache.objects, NOW)) == []


def test_nothing_that_was_counted_is_lost_when_the_cluster_grows() -> None:
    """I2: rows and columns are built again, and what runs on the first nodes still takes its capacity."""
    cache = Cache()
    cache.handle(PodGroup, ObjectUpdated(group("g", minMember=1)))
    for i in range(70):
        cache.handle(Node, ObjectUpdated(gpu_node(f"n{i}")))
        raw: Any = gpu_pod(f"p{i}", "g", node_name=f"n{i}")
        raw["spec"]["containers"][0]["resources"]["limits"][f"example.com/r{i % 20}"] = "1"
        cache.handle(Pod, ObjectUpdated(raw))
        if i % 23 == 0:
            cache.snapshot(NOW)
    cache.handle(Pod, ObjectUpdated(gpu_pod("waits", "g")))
    assert same(cache)


def test_nothing_that_is_there_is_lost_when_what_is_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: kinds of pods that came and went are forgotten; who stayed all the time is counted again."""
    monkeypatch.setattr(incremental_snapshot, "SPARE", 0)
    cache = Cache()
    for struct, raw in (
        (Node, gpu_node("a")),
        (PodGroup, group("g", minMember=1)),
        (Pod, gpu_pod("p", "g", node_name="a")),
    ):
        cache.handle(struct, ObjectUpdated(raw))
    for i in range(12):
        cache.handle(Pod, ObjectUpdated(gpu_pod("q", "g", gpus=i)))
        assert same(cache)
    cache.handle(Pod, ObjectDeleted(gpu_pod("q", "g")))
    assert same(cache)
    assert len(cache._incremental._kinds.requests) < 12


def test_a_pod_joins_a_leaf_when_its_group_gets_one() -> None:
    """It was on its node as a stranger, and did not change at all."""
    cache = Cache()
    cache.handle(Node, ObjectUpdated(gpu_node("a")))
    cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g", leaf="left", node_name="a")))
    for name in ("right", "left", "right"):
        cache.handle(PodGroup, ObjectUpdated(group("g", subGroups=[leaf(name, 1)])))
        assert same(cache)


def test_what_goes_away_after_an_echo_is_news() -> None:
    """A pod that is lost right after it was bound: the next cycle has to plan for that."""
    cache = Cache()
    cache.handle(Node, ObjectUpdated(gpu_node("a")))
    cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g")))
    seen = cache.pod("default/p")
    assert seen is not None
    for struct, raw in ((Pod, gpu_pod("p", "g")), (Node, gpu_node("a"))):
        cache.snapshot(NOW, {"default/p": replace(seen, spec=replace(seen.spec, node_name="a"))})
        cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g")))
        assert cache.handle(Pod, ObjectUpdated(gpu_pod("p", "g", node_name="a")))
        assert cache.echo
        assert cache.handle(struct, ObjectDeleted(raw))
        assert not cache.echo


def small(raw: Raw) -> Pod:
    return PodInterner().intern(decode(raw, Pod)[0])


def test_parts_that_look_alike_stay_what_they_are() -> None:
    """Labels and a status that are written the same are kept apart."""
    raw = gpu_pod("p", "g")
    raw["metadata"]["labels"] = raw["spec"]["nodeSelector"] = {"phase": "Running"}
    raw["status"] = {"phase": "Running"}
    interned = small(raw)
    assert interned.metadata.labels == interned.spec.node_selector == {"phase": "Running"}
    assert interned.status.phase == "Running"


def test_a_volume_that_is_made_for_a_pod_is_kept() -> None:
    """Such a pod is not placed, and its condition says why: that would be lost if it were left out."""
    raw = gpu_pod("p", "g")
    ephemeral = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}
    raw["spec"]["volumes"] = [ephemeral, claim, {"name": "tmp", "emptyDir": {}}]
    kept = Volume(ephemeral=EphemeralSource()), Volume(persistent_volume_claim=ClaimSource("claim"))
    assert small(raw).spec.volumes == kept


def test_parts_of_pods_that_are_gone_are_forgotten() -> None:
    """A cluster whose pods come and go for weeks: memory follows those that are there."""
    cache = Cache()
    for i in range(3 * interning.SPARE_PARTS):
        raw = gpu_pod(f"p{i}", f"g{i}")
        raw["metadata"]["labels"] = {"index": str(i)}
        cache.handle(Pod, ObjectUpdated(raw))
        if i >= 10:
            cache.handle(Pod, ObjectDeleted(gpu_pod(f"p{i - 10}", f"g{i - 10}")))
    assert len(cache._interner) < interning.SPARE_PARTS + 10 * interning.PARTS_OF_A_POD
