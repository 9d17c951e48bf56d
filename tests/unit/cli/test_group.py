"""`muster group`, and workload manifests in the other verbs and in Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import muster
from muster.api.resources import DEPLOYMENTS, NODES, POD_GROUPS, PODS, REPLICA_SETS, Resource
from muster.cli import live
from muster.cli.main import cli
from muster.embedded.memory_cluster import MemoryCluster
from muster.errors import InputError
from muster.kube.cluster import Listing
from muster.kube.errors import ApiError
from muster.validation.check import check, errors
from tests.unit.grouping.manifests.manifest_examples import (
    Raw,
    deployment,
    job,
    lws,
    manifest,
    node,
    pod,
    pytorch_job,
    reference,
    template,
)

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Objects in a file; returns its path."""

    def to_file(*raws: Raw, name: str = "workloads.yaml") -> str:
        (tmp_path / name).write_text(yaml.safe_dump_all(raws), encoding="utf-8")
        return str(tmp_path / name)

    return to_file


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, standalone_mode=False)


def failure(*words: str) -> str:
    error = run(*words).exception
    assert isinstance(error, InputError)
    return str(error)


# group --------------------------------------------------------------------------------------------------------------


def test_the_table_shows_rule_tree_minimums_and_their_sources(write: Write) -> None:
    shown = run("group", write(lws(replicas=3, size=4))).stdout
    assert "default/pg-llm-leaderworkerset-group-0  LeaderWorkerSet `default/llm` by the rule for LeaderWork" in shown
    assert "and 2 more like it, to default/pg-llm-leaderworkerset-group-2" in shown
    assert "└─ workers" in shown
    assert "spec.leaderWorkerTemplate.size - 1" in shown
    assert shown.count("─ workers") == 1, "replicas that are alike are drawn once"


def test_queue_class_and_topology_are_shown(write: Write) -> None:
    annotations = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": "rack"}
    labels = {"kai.scheduler/queue": "research", "priorityClassName": "build"}
    labels["kai.scheduler/preemptibility"] = "preemptible"
    shown = run("group", write(lws(replicas=1, annotations=annotations, labels=labels))).stdout
    assert "queue research, priority class build, preemptible" in shown
    assert "rack (dc)" in shown


def test_json_nests_the_tree_with_its_sources(write: Write) -> None:
    data = json.loads(run("group", "-o", "json", write(pytorch_job(workers=2))).stdout)
    assert (data["kind"], data["apiVersion"]) == ("Grouping", "muster.dev/v1")
    (group,) = data["podGroups"]
    assert group["workload"] == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "namespace": "default",
        "name": "mnist",
    }
    assert [(node_["name"], node_["need"], node_["pods"]) for node_ in group["tree"]["children"]] == [
        ("master", 1, 1),
        ("worker", 2, 2),
    ]
    assert group["tree"]["children"][1]["source"] == "spec.pytorchReplicaSpecs.Worker.replicas"


def test_yaml_is_a_manifest_that_an_api_server_accepts(write: Write) -> None:
    printed = run("group", "-o", "yaml", write(lws(), pytorch_job(), deployment(), job())).stdout
    raws = list(yaml.safe_load_all(printed))
    assert {raw["kind"] for raw in raws} == {"PodGroup"}
    assert [list(errors(check(raw))) for raw in raws] == [[] for _ in raws]
    assert all("ownerReferences" not in raw["metadata"] for raw in raws), "owners in files have no uid"


def test_a_pod_that_cannot_be_grouped_is_a_no(write: Write) -> None:
    result = run("group", write(job(), pod("lost", reference("Job", "batch/v1", "gone", "1"))))
    assert result.return_value == 1
    assert "! pod `default/lost`: owner Job `gone` is not among the objects" in result.stdout
    assert "hint: add its manifest" in result.stdout


def test_all_pods_grouped_is_a_yes(write: Write) -> None:
    assert run("group", write(job())).return_value == 0


def test_kinds_that_the_configuration_does_not_list_are_noted_as_such(write: Write, tmp_path: Path) -> None:
    config = tmp_path / "muster.yaml"
    config.write_text("grouping: {owners: [jobs.batch]}", encoding="utf-8")
    result = run("group", "--config", str(config), write(job(), lws()))
    assert "`grouping.owners` does not list them: 1 LeaderWorkerSet" in result.stderr
    assert "does not know" not in result.stderr


def test_unknown_kinds_are_noted(write: Write) -> None:
    result = run("group", write(job(), manifest("Gadget", "example.com/v1", "g", {})))
    assert "left alone, as muster does not know them: 1 Gadget (example.com/v1)" in result.stderr
    assert "Job" not in result.stderr.splitlines()[0]


def test_a_template_without_scheduler_is_noted_with_the_way_out(write: Write) -> None:
    result = run("group", write(manifest("Job", "batch/v1", "train", {"template": template(schedulerName="")})))
    assert "Job `default/train`; hint: say `schedulerName: muster`" in result.stderr
    assert result.return_value == 0


@pytest.mark.parametrize(("minimum", "is_noted"), [(4, False), (5, True)])
@pytest.mark.parametrize("is_scheduled", [False, True])
def test_a_minimum_beyond_the_pods_of_a_workload_is_noted(
    write: Write, minimum: int, is_noted: bool, is_scheduled: bool
) -> None:
    """Such a gang waits for ever, and nothing in the cluster would say so before."""
    raw = job(pods=4, annotations={"kai.scheduler/batch-min-member": str(minimum)})
    if is_scheduled:
        raw = manifest("CronJob", "batch/v1", "train", {"schedule": "0 * * * *", "jobTemplate": {**raw, "kind": "Job"}})
    result = run("group", write(raw))
    says = f"needs {minimum} pods (annotation kai.scheduler/batch-min-member), and will have 4; hint: lower the minimum"
    assert (says in result.stderr) == is_noted
    assert ("will never start" in result.stderr) == is_noted


def test_a_minimum_beyond_the_pods_of_a_role_is_noted_once_a_workload(write: Write) -> None:
    spec = {"template": template(), "parallelism": 2, "completions": 2}
    of_template = {"annotations": {"kai.scheduler/batch-min-member": "3"}}
    jobs = [{"name": "w", "replicas": 2, "template": {"metadata": of_template, "spec": spec}}]
    result = run("group", write(manifest("JobSet", "jobset.x-k8s.io/v1alpha2", "wide", {"replicatedJobs": jobs})))
    assert "JobSet `default/wide` will never start: `w-replica-0` of default/pg-wide-jobset needs 3" in result.stderr
    assert result.stderr.count("will never start") == 1


def test_pods_that_are_not_needed_may_be_missing(write: Write) -> None:
    """One of two replicated jobs is enough: the other's minimum keeps nothing from starting."""
    spec = {"template": template(), "parallelism": 1, "completions": 1}
    many = {"annotations": {"kai.scheduler/batch-min-member": "3"}}
    jobs = [
        {"name": "ok", "replicas": 1, "template": {"spec": spec}},
        {"name": "short", "replicas": 1, "template": {"metadata": many, "spec": spec}},
    ]
    raw = manifest(
        "JobSet",
        "jobset.x-k8s.io/v1alpha2",
        "some",
        {"replicatedJobs": jobs},
        annotations={"kai.scheduler/batch-min-member": "1"},
    )
    assert "will never start" not in run("group", write(raw)).stderr


def test_a_minimum_of_an_own_kind_beyond_its_pods_is_noted_with_the_path_to_correct(
    write: Write, tmp_path: Path
) -> None:
    """The description has no path of the replicas: one pod is all that it says."""
    (tmp_path / "muster.yaml").write_text(GADGETS.replace("replicas: .spec.size", "minimum: .spec.least"))
    raw = manifest("Gadget", "example.com/v1", "storm", {"least": 3, "template": template()})
    result = run("group", "--config", str(tmp_path / "muster.yaml"), write(raw))
    assert "needs 3 pods (.spec.least), and will have 1; hint: lower the minimum, or ask for more" in result.stderr
    assert "`replicas` in `grouping.kinds`" in result.stderr


def test_pods_that_exist_may_be_fewer_than_a_minimum(write: Write) -> None:
    """Their controller may still be at work: nothing is said that may be wrong."""
    raw = job(pods=4, annotations={"kai.scheduler/batch-min-member": "5"})
    raw["metadata"]["uid"] = "7"
    result = run("group", write(raw, *(pod(f"p{i}", reference("Job", "batch/v1", "train", "7")) for i in range(2))))
    assert "will never start" not in result.stderr


def test_no_example_has_a_minimum_beyond_its_pods() -> None:
    examples = Path(__file__).parents[3] / "examples" / "workloads"
    assert "will never start" not in run("group", str(examples)).stderr


def test_files_without_pods_say_so(write: Write) -> None:
    assert "there are no pods to group in these files" in run("group", write(node())).stderr


def test_kinds_of_the_configuration_are_grouped(write: Write, tmp_path: Path) -> None:
    config = tmp_path / "muster.yaml"
    config.write_text(
        "grouping: {kinds: [{apiVersion: example.com/v1, kind: Gadget, resource: gadgets, replicas: .spec.size}]}"
    )
    raw = manifest("Gadget", "example.com/v1", "storm", {"size": 3, "template": template()})
    result = run("group", "--config", str(config), write(raw, name="gadget.yaml"))
    assert "pg-storm-gadget  3 pods  3" in result.stdout
    assert "left alone" not in result.stderr


GADGETS = "grouping: {kinds: [{apiVersion: example.com/v1, kind: Gadget, resource: gadgets, replicas: .spec.size}]}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plan",), "Scheduled  default/pg-storm-gadget"),
        (("plan", "--with"), "default/pg-storm-gadget  - → Scheduled"),
        (("tree",), "default/pg-storm-gadget"),
        (("explain", "default/storm"), "default/pg-storm-gadget"),
        (("queues", "-o", "json"), '"requested": "3"'),
    ],
    ids=" ".join,
)
def test_kinds_of_the_configuration_count_in_every_verb(
    write: Write, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    (tmp_path / "muster.yaml").write_text(GADGETS, encoding="utf-8")
    gadget = write(manifest("Gadget", "example.com/v1", "storm", {"size": 3, "template": template()}))
    cluster = write(node(), name="cluster.yaml")
    result = run(*words, gadget, cluster, "--config", str(tmp_path / "muster.yaml"))
    assert says in result.stdout
    assert "left alone" not in result.stderr


def test_a_pod_without_a_gang_gets_none_in_a_plan(write: Write, tmp_path: Path) -> None:
    """Its owner is of a described kind, and is not given: the pod is not planned alone."""
    (tmp_path / "muster.yaml").write_text(GADGETS, encoding="utf-8")
    file = write(node(), pod("lost", reference("Gadget", "example.com/v1", "gone", "1")))
    result = run("plan", "--require-all", file, "--config", str(tmp_path / "muster.yaml"))
    assert (result.return_value, "0 gangs" in result.stdout or "Scheduled" not in result.stdout) == (1, True)


def test_a_configuration_that_is_not_there_is_an_error(write: Write) -> None:
    assert "nowhere.yaml: no such file" in failure("tree", write(job()), "--config", "nowhere.yaml")


def test_scheduler_names_come_from_options_then_configuration(write: Write, tmp_path: Path) -> None:
    config = tmp_path / "muster.yaml"
    config.write_text("scheduling: {schedulerNames: [kai-scheduler]}")
    file = write(manifest("Job", "batch/v1", "train", {"template": template(schedulerName="kai-scheduler")}))
    assert "pg-train" not in run("group", file).stdout
    assert "pg-train" in run("group", "--config", str(config), file).stdout
    assert "pg-train" in run("group", "--scheduler-name", "kai-scheduler", file).stdout


@pytest.mark.parametrize("verb", ["group", "plan", "tree", "queues"])
@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (job(pods=10**9), "spec.parallelism is 1000000000: more than 20000 pods"),
        (lws(replicas="three"), "spec.replicas is not a whole number from 0 up: `three`"),
        (manifest("Job", "batch/v1", "train", {}), "a pod template is missing or has no containers"),
        (manifest("Job", "batch/v1", "train", "text"), "`spec` is not an object"),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_file(write: Write, verb: str, raw: Raw, says: str) -> None:
    said = failure(verb, write(raw))
    assert "workloads.yaml: " in said
    assert says in said


# other verbs --------------------------------------------------------------------------------------------------------


def test_a_plain_workload_is_planned(write: Write) -> None:
    result = run("plan", "--require-all", write(node(), pytorch_job(workers=2)))
    assert result.return_value == 0
    assert "Scheduled  default/pg-mnist-pytorchjob" in result.stdout
    assert "made from templates: 3 of PyTorchJob `default/mnist`" in result.stderr
    assert "left alone" not in result.stderr


@pytest.mark.parametrize("option", [(), ("--with",)])
def test_require_all_fails_where_pods_of_a_workload_get_no_gang(write: Write, option: tuple[str, ...]) -> None:
    """A pipeline must not pass a workload whose pods would never run."""
    invalid = job()
    invalid["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": "many"}
    files = write(node(), name="cluster.yaml"), *option, write(invalid)
    assert run("plan", *files).return_value == 0
    result = run("plan", "--require-all", *files)
    assert result.return_value == 1
    assert "kai.scheduler/batch-min-member" in result.stderr


def test_a_workload_that_does_not_fit_waits(write: Write) -> None:
    result = run("plan", "--require-all", write(node(cpu="2"), pytorch_job(workers=4)))
    assert result.return_value == 1
    assert "Scheduled  default" not in result.stdout


def test_a_plain_workload_is_drawn(write: Write) -> None:
    shown = run("tree", write(lws(replicas=1, size=3))).stdout
    assert "├─ leader" in shown
    assert "0/2" in shown


def test_a_workload_is_explained_by_its_own_name(write: Write) -> None:
    file = write(node(), pytorch_job(), lws(replicas=2))
    assert "default/pg-mnist-pytorchjob" in run("explain", "default/mnist", file).stdout
    assert "`default/llm` has 2 PodGroups" in failure("explain", "default/llm", file)


def test_requests_of_future_pods_count_in_their_queue(write: Write) -> None:
    data = json.loads(run("queues", "-o", "json", write(node(), job(pods=3))).stdout)
    (queue,) = data["queues"]
    assert queue["resources"]["cpu"]["requested"] == "3"


def test_validate_says_that_workloads_are_not_validated(write: Write) -> None:
    assert "workloads are not validated: 1 Job; `muster group` shows" in run("validate", write(job())).stderr


# what if ------------------------------------------------------------------------------------------------------------


def test_what_if_a_workload_were_submitted(write: Write) -> None:
    result = run("plan", "--with", write(lws(replicas=1, size=3)), write(node(), job(), name="cluster.yaml"))
    assert "what if: adds 1 PodGroup, 3 Pods" in result.stdout
    assert "default/pg-llm-leaderworkerset-group-0  - → Scheduled" in result.stdout


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2)])
def test_what_if_a_workload_were_scaled(before: int, after: int) -> None:
    given, more = muster.objects([node(), pytorch_job(workers=before)]), muster.objects([pytorch_job(workers=after)])
    answer = muster.what_if(given, with_=more)
    assert [len(plan.bindings) for plan in (answer.before, answer.after)] == [before + 1, after + 1]


def test_a_field_of_a_workloads_pod_group_may_be_supposed() -> None:
    given = muster.objects([node(), pytorch_job(workers=2)])
    answer = muster.what_if(given, set={"default/pg-mnist-pytorchjob.queue": "nowhere"})
    assert answer.after.verdict("default/pg-mnist-pytorchjob") == "Waiting"


# Python -------------------------------------------------------------------------------------------------------------


def test_python_groups_objects_and_paths(write: Write) -> None:
    file = write(pytorch_job())
    assert [gang.key for gang in muster.group(file).pod_groups] == ["default/pg-mnist-pytorchjob"]
    assert str(muster.group(muster.load(file))) == run("group", file).stdout.rstrip()


def test_python_plans_workloads() -> None:
    plan = muster.plan(muster.objects([node(), lws(replicas=1, size=2)]))
    assert plan.verdict("default/pg-llm-leaderworkerset-group-0") == "Scheduled"
    assert len(plan.bindings) == 2


# live clusters ------------------------------------------------------------------------------------------------------


class Served(MemoryCluster):
    """A cluster that is read, and refuses kinds as scripted."""

    server = "https://cluster.example.com"
    refused: dict[str, int] = {}  # noqa: RUF012 (set on instances)

    async def list(self, resource: Resource, *words: Any, **page: Any) -> Listing:
        if status := self.refused.get(resource.plural):
            raise ApiError(status, "Refused", "refused")
        return await super().list(resource, *words, **page)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    """A Deployment with one pod, as controllers made it."""
    cluster = Served()
    made = cluster.store.create(DEPLOYMENTS, deployment(replicas=1), namespace="default")
    owner = reference("Deployment", "apps/v1", "web", made["metadata"]["uid"])
    replica_set = {
        **manifest("ReplicaSet", "apps/v1", "web-5d4f", {**deployment()["spec"], "replicas": 1}),
        "metadata": {"name": "web-5d4f", "ownerReferences": [{**owner, "controller": True}]},
    }
    made = cluster.store.create(REPLICA_SETS, replica_set, namespace="default")
    raw = pod("web-5d4f-a", reference("ReplicaSet", "apps/v1", "web-5d4f", made["metadata"]["uid"]))
    del raw["metadata"]["uid"]
    raw["spec"]["containers"][0]["image"] = "app"
    cluster.store.create(PODS, raw, namespace="default")
    cluster.store.create(NODES, node())
    monkeypatch.setattr(live, "connect_reader", lambda *_: cluster)
    return cluster


def test_pods_of_a_cluster_are_grouped_by_their_owners(served: Served) -> None:
    assert served.server
    result = run("group", "--context", "here")
    assert "Deployment `default/web` by the rule for Deployment" in result.stdout
    assert result.return_value == 0


def test_pods_of_a_cluster_without_pod_groups_are_planned(served: Served) -> None:
    assert served.server
    assert "1 gang: 1 Scheduled; 1 pod to bind" in run("plan", "--context", "here").stdout


def test_workloads_of_a_cluster_get_no_future_pods(served: Served) -> None:
    """Their controllers make them: a rollout on its way is not planned twice."""
    served.store.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 9}}, "application/merge-patch+json")
    result = run("group", "--context", "here")
    assert "made from templates" not in result.stderr


@pytest.mark.parametrize(("status", "says"), [(403, "muster may not read"), (404, "the cluster does not know")])
def test_owners_that_cannot_be_read_are_noted(served: Served, status: int, says: str) -> None:
    served.refused = {"deployments": status}
    result = run("group", "--context", "here")
    assert says in result.stderr
    assert "by the rule for ReplicaSet" in result.stdout


def test_a_missing_owner_of_a_cluster_is_said_as_the_cluster_would(served: Served) -> None:
    """There is no manifest to add: the pod says the same in its event."""
    raw = pod("lost", reference("ReplicaSet", "apps/v1", "gone", "1"))
    del raw["metadata"]["uid"]
    raw["spec"]["containers"][0]["image"] = "app"
    served.store.create(PODS, raw, namespace="default")
    result = run("group", "--context", "here")
    assert "owner ReplicaSet `gone` does not exist: the pod is not grouped" in result.stdout
    assert "hint: Kubernetes deletes pods without owners; to keep this one, remove its owner reference" in result.stdout
    assert "manifest" not in result.stdout


@pytest.mark.parametrize("words", [("--drain", "n1"), ("--with",)], ids=" ".join)
def test_a_what_if_says_which_owners_cannot_be_read(served: Served, write: Write, words: tuple[str, ...]) -> None:
    """The pod is planned by its ReplicaSet, as without a supposition, and not left out."""
    served.refused = {"deployments": 403}
    more = [write(job())] if words == ("--with",) else []
    result = run("plan", "--context", "here", *words, *more)
    assert "muster may not read Deployment `web`" in result.stderr
    assert "not among the objects" not in result.stderr


def test_a_scaled_manifest_adds_the_missing_pods_of_a_cluster(served: Served, write: Write) -> None:
    assert served.server
    result = run("plan", "--context", "here", write(deployment(replicas=3)))
    assert "3 gangs: 3 Scheduled; 3 pods to bind" in result.stdout
    assert "made from templates: 2 of Deployment `default/web`" in result.stderr


def test_owners_are_read_only_where_pods_need_them(served: Served) -> None:
    """A cluster whose pods have their PodGroups is read as before there was a grouper."""
    group = manifest("PodGroup", POD_GROUPS.api_version, "mine", {"minMember": 1})
    served.store.create(POD_GROUPS, group, namespace="default")
    mark = {"metadata": {"annotations": {"pod-group-name": "mine", "muster.dev/grouped-by": "Deployment"}}}
    served.store.patch(PODS, "default", "web-5d4f-a", mark, "application/merge-patch+json")
    served.refused = {DEPLOYMENTS.plural: 403, REPLICA_SETS.plural: 403}
    result = run("plan", "--context", "here")
    assert result.exception is None
    assert "may not read" not in result.stderr
