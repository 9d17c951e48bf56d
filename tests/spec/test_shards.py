"""Shards: a muster for each pool of nodes. Nodes, queues and PodGroups say by a label whose they are, as with KAI."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import muster
from muster.api.names import NODE_POOL
from muster.cli.main import cli
from muster.config.loading import read
from muster.errors import InputError
from muster.validation.shard import Shard
from tests.support.factories import Raw, node, pod, podgroup, pods, queue

PLAIN, POOL = Shard(), Shard("a")


def in_pool(raw: Raw, pool: str = "a") -> Raw:
    raw["metadata"].setdefault("labels", {})[NODE_POOL] = pool
    return raw


def planned(*raws: Raw, shard: Shard | None = PLAIN) -> muster.Plan:
    return muster.plan(muster.objects(raws), muster.Policy(shard=shard))


def reason(plan: muster.Plan) -> str:
    (gang,) = plan.to_dict()["podGroups"]
    return str(gang["reasons"][0]["reason"])


def test_each_shard_places_its_own_gangs_on_its_own_nodes() -> None:
    """The label of the PodGroup decides; pods need none."""
    mine = [podgroup(name="g", minMember=1), pod("g", gang="g", cpu=1)]
    theirs = [in_pool(podgroup(name="h", minMember=1)), pod("h", gang="h", cpu=1)]
    cluster = [node("n"), in_pool(node("m")), *mine, *theirs]
    places = [{(b.pod, b.node) for b in planned(*cluster, shard=shard).bindings} for shard in (PLAIN, POOL)]
    assert places == [{("g", "n")}, {("h", "m")}]
    assert len(planned(*cluster, shard=None).bindings) == 2, "without shards all nodes are one pool"


def test_a_pool_without_a_muster_is_left_alone() -> None:
    ghost = [in_pool(podgroup(minMember=1), "ghost"), pod("p", cpu=1)]
    cluster = [node("n"), in_pool(node("m")), *ghost]
    assert all(planned(*cluster, shard=shard).to_dict()["podGroups"] == [] for shard in (PLAIN, POOL))


def test_pods_of_other_shards_only_take_room() -> None:
    """N6: a node came to this pool while pods of another run there; they are no victims and count in no queue."""
    theirs = [podgroup(name="h", minMember=1), pod("h", gang="h", on="m", phase="Running", cpu=7)]
    mine = [in_pool(podgroup(name="g", minMember=1, priorityClassName="system-cluster-critical"))]
    plan = planned(in_pool(node("m", cpu=8)), *theirs, *mine, pod("g", gang="g", cpu=2), shard=POOL)
    assert (plan.bindings, plan.evictions) == ((), ())
    assert reason(plan) == "NoRoom"


def test_pods_on_a_node_that_left_the_pool_run_on() -> None:
    """They count for their gang, which is neither stale nor placed again (decision 0010)."""
    gang = [podgroup(minMember=2), *pods(2, on="m", phase="Running", cpu=1)]
    plan = planned(node("n"), in_pool(node("m")), *gang)
    assert (plan.bindings, plan.evictions, plan.verdict("team/gang")) == ((), (), "Scheduled")


@pytest.mark.parametrize(("shard", "expected"), [(PLAIN, "QueueDoesNotExist"), (POOL, "")])
def test_a_queue_belongs_to_one_shard(shard: Shard, expected: str) -> None:
    """A queue without the label is the default shard's, and the only one that its gangs may use."""
    gang = [in_pool(podgroup(minMember=1, queue="q"), shard.value), pod("p", cpu=1)]
    nodes = [in_pool(node("n"), shard.value)]
    plan = planned(*nodes, queue("other"), in_pool(queue("other-a")), in_pool(queue("q")), *gang, shard=shard)
    assert (plan.bindings == ()) == bool(expected)
    assert not expected or reason(plan) == expected


def test_a_shard_without_queues_has_the_default_one() -> None:
    """Q2 holds for each shard by itself."""
    gang = [in_pool(podgroup(minMember=1)), pod("p", cpu=1)]
    assert len(planned(in_pool(node("n")), queue("of-others"), *gang, shard=POOL).bindings) == 1


def test_workloads_say_their_pool_by_a_label() -> None:
    """Of the workload, else of its pods, as KAI's podgrouper reads it; a project has a queue for each pool."""

    def job(name: str, labels: Raw, of_pods: Raw) -> Raw:
        pod_spec = {"schedulerName": "muster", "restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
        spec = {"template": {"metadata": {"labels": of_pods}, "spec": pod_spec}}
        meta = {"name": name, "namespace": "team", "labels": labels}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}

    jobs = [
        job("of-job", {NODE_POOL: "a"}, {}),
        job("of-pod", {}, {NODE_POOL: "a", "project": "p"}),
        job("none", {}, {}),
    ]
    made = {gang.workload.name: gang.pod_group for gang in muster.group(muster.objects(jobs)).pod_groups}
    pools = {name: group.metadata.labels.get(NODE_POOL) for name, group in made.items()}
    assert pools == {"of-job": "a", "of-pod": "a", "none": None}
    assert made["of-pod"].spec.queue == "p-a"
    cluster = [in_pool(node("m")), in_pool(queue("p-a")), in_pool(queue("default")), *jobs]
    assert len(planned(*cluster, shard=POOL).bindings) == 2


# the configuration, and verbs on files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{enabled: true, nodePoolLabelKey: 'a b'}", "is not the key of a label"),
        ("{enabled: true, partitionLabelValue: '-a'}", "is not the value of a label"),
        ("{partitionLabelValue: a}", "is not read without `enabled: true`"),
        ("{enabled: true, value: a}", "is not a setting"),
    ],
)
def test_a_shard_that_no_node_could_be_in_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        read(f"scheduling: {{shard: {text}}}".encode(), "c")


def test_shards_have_leases_of_their_own() -> None:
    """Whatever letters a label has: two values never share one. The default shard has that of a whole cluster."""

    def lease(value: str) -> str:
        config = read(f"scheduling: {{shard: {{enabled: true, partitionLabelValue: '{value}'}}}}".encode(), "c")
        return config.lease_name

    assert [lease(""), lease("a.b"), read(b"", "c").lease_name] == ["muster", "muster-a.b", "muster"]
    odd = ["Pool_A", "pool-a", "POOL-A", "pool_a", "Pool-A"]
    assert len(set(map(lease, odd))) == len(odd)
    assert all(name == name.lower() and "_" not in name for name in map(lease, odd))


@pytest.fixture
def show(tmp_path: Path) -> Any:
    """A verb with the configuration of a shard, on these objects."""

    def run(raws: list[Raw], pool: str, *words: str) -> Result:
        (tmp_path / "c.yaml").write_text(
            f"scheduling: {{shard: {{enabled: true, partitionLabelValue: '{pool}'}}}}", encoding="utf-8"
        )
        (tmp_path / "o.yaml").write_text(yaml.safe_dump_all(raws), encoding="utf-8")
        return CliRunner().invoke(
            cli, [*words, str(tmp_path / "o.yaml"), "--config", str(tmp_path / "c.yaml")], standalone_mode=False
        )

    return run


def test_verbs_on_files_show_the_shard_of_their_configuration(show: Any) -> None:
    mine = [in_pool(node("m")), in_pool(queue("q")), in_pool(podgroup(name="h", minMember=1, queue="q"))]
    cluster = [node("n"), queue("default"), podgroup(name="g", minMember=1), pod("g", gang="g", cpu=1), *mine]
    cluster.append(pod("h", gang="h", cpu=1))
    plan = json.loads(show(cluster, "a", "plan", "-o", "json").stdout)
    assert [binding["node"] for binding in plan["bindings"]] == ["m"]
    assert [each["name"] for each in json.loads(show(cluster, "a", "queues", "-o", "json").stdout)["queues"]] == ["q"]
    trees = json.loads(show(cluster, "a", "tree", "-o", "json").stdout)
    assert [each["name"] for each in trees["podGroups"]] == ["h"]
    assert trees["foreign"] == []


def test_explain_says_whose_a_gang_is(show: Any) -> None:
    """One that no muster serves waits untouched, so nothing on the gang itself can say why."""
    cluster = [node("n"), in_pool(podgroup(minMember=1), "ghost"), pod("p", cpu=1)]
    result = show(cluster, "", "explain", "team/gang")
    assert isinstance(result.exception, InputError)
    assert "belongs to the shard `ghost`" in str(result.exception)
    assert "no node in these files does" in str(result.exception)
    assert "this configuration is for the default shard" in str(result.exception)
