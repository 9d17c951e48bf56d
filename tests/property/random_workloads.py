"""Random workloads of every kind with roles, each with the pods that its operator makes."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from muster.grouping.types import Owner, WorkloadPod
from tests.support.owned_pods import owner, pod

Workload = tuple[Owner, list[WorkloadPod]]
SMALL = st.integers(0, 4)
LWS, JOB_SET, TRAINING = "leaderworkerset.sigs.k8s.io", "jobset.sigs.k8s.io", "training.kubeflow.org"
FIELDS = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A value, or None: left out."""
    return st.none() | values


def stated(**fields: Any) -> dict[str, Any]:
    """Fields without those that are left out."""
    return {name: value for name, value in fields.items() if value is not None}


@st.composite
def leader_worker_sets(draw: st.DrawFn) -> Workload:
    """Sizes, segments of all widths, both policies, both orders of startup."""
    size, replicas = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    segment = draw(maybe(st.integers(2, max(size, 2))))
    policy = draw(st.sampled_from(["LeaderWorker", "LeaderExcluded"]))
    template = stated(size=size, subGroupPolicy=segment and {"subGroupSize": segment, "subGroupPolicyType": policy})
    raw = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "lws"}}
    startup = draw(maybe(st.sampled_from(["LeaderCreated", "LeaderReady"])))
    workload = owner(raw, leaderWorkerTemplate=template, **stated(replicas=replicas, startupPolicy=startup))
    if segment and segment > size:
        return workload, []
    labels = [
        {f"{LWS}/group-index": str(g), f"{LWS}/worker-index": str(w)} for g in range(replicas) for w in range(size)
    ]
    return workload, [pod(f"lws-{i}", each, {f"{LWS}/size": str(size)}) for i, each in enumerate(labels)]


@st.composite
def job_sets(draw: st.DrawFn) -> Workload:
    """Replicas, parallelism and completions, in order, with dependencies."""
    jobs, pods = [], []
    order = draw(maybe(st.sampled_from(["AnyOrder", "InOrder"])))
    for number in range(draw(st.integers(1, 3))):
        replicas, parallelism, completions = (draw(maybe(SMALL)) for _ in range(3))
        follows = number and order is None and draw(st.booleans())
        job = stated(
            name=f"j{number}", replicas=replicas, dependsOn=[{"name": "j0", "status": "Ready"}] if follows else None
        )
        jobs.append(job | {"template": {"spec": stated(parallelism=parallelism, completions=completions)}})
        at_a_time = 1 if parallelism is None else parallelism
        at_a_time = at_a_time if completions is None else min(at_a_time, completions)
        for index in range(1 if replicas is None else replicas):
            labels = {f"{JOB_SET}/replicatedjob-name": f"j{number}", f"{JOB_SET}/job-index": str(index)}
            pods += [pod(f"j{number}-{index}-{i}", labels) for i in range(at_a_time)]
    raw = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "js"}}
    policy = order and {"startupPolicyOrder": order}
    return owner(raw, replicatedJobs=jobs, **stated(startupPolicy=policy)), pods


@st.composite
def kubeflow_jobs(draw: st.DrawFn) -> Workload:
    """Roles of three kinds, minimums below and above the replicas, elastic policies, segments."""
    kind, names = draw(st.sampled_from([("PyTorchJob", ["Master", "Worker"]), ("TFJob", ["Chief", "PS", "Worker"]),
                                        ("MPIJob", ["Launcher", "Worker"])]))  # fmt: skip
    replicas = {name: draw(st.integers(1 if name in ("Master", "Launcher") else 0, 6)) for name in names}
    segment = draw(maybe(st.integers(1, 4)))
    annotations = {"kai.scheduler/segment-size": str(segment)} if segment else {}
    specs = {
        name: {"replicas": n, "template": {"metadata": {"annotations": annotations}}} for name, n in replicas.items()
    }
    minimum, least = draw(maybe(st.integers(0, 9))), draw(maybe(st.integers(0, 9)))
    spec = stated(
        runPolicy=None if minimum is None else {"schedulingPolicy": {"minAvailable": minimum}},
        elasticPolicy=None if least is None else {"minReplicas": least},
        launcherCreationPolicy=draw(maybe(st.sampled_from(["AtStartup", "WaitForWorkersReady"]))),
    )
    raw = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "fit"}}
    pods = [
        pod(f"fit-{name}-{i}", {f"{TRAINING}/replica-type": name.lower(), f"{TRAINING}/replica-index": str(i)})
        for name, n in replicas.items()
        for i in range(n)
    ]
    return owner(raw, **{FIELDS[kind]: specs}, **spec), pods


@st.composite
def ray_clusters(draw: st.DrawFn) -> Workload:
    """Groups with minimum and maximum, several hosts, suspended ones, with and without indexes of replicas."""
    groups = [draw(_ray_groups(f"g{number}")) for number in range(draw(SMALL))]
    is_indexed = draw(st.booleans())
    pods = [pod("head", {"ray.io/group": "headgroup"})]
    for group in groups:
        pods += _ray_pods(group, is_indexed)
    raw = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}}
    return owner(raw, headGroupSpec={"template": {}}, workerGroupSpecs=groups), pods


@st.composite
def _ray_groups(draw: st.DrawFn, name: str) -> dict[str, Any]:
    return stated(
        groupName=name,
        replicas=draw(maybe(SMALL)),
        minReplicas=draw(maybe(SMALL)),
        maxReplicas=draw(maybe(st.integers(4, 8))),
        numOfHosts=draw(maybe(st.integers(1, 3))),
        suspend=draw(maybe(st.booleans())),
    )


def _ray_pods(group: dict[str, Any], is_indexed: bool) -> Iterator[WorkloadPod]:
    """As KubeRay makes them: replicas within minimum and maximum, each of as many hosts."""
    least, most = group.get("minReplicas", 0), group.get("maxReplicas", 99)
    replicas = 0 if group.get("suspend") else min(max(group.get("replicas", 0), least), most)
    for index in range(replicas):
        labels = {"ray.io/group": group["groupName"]}
        labels |= {"ray.io/worker-group-replica-index": str(index)} if is_indexed else {}
        for host in range(group.get("numOfHosts", 1)):
            yield pod(f"{group['groupName']}-{index}-{host}", labels)


WORKLOADS = st.one_of(leader_worker_sets(), job_sets(), kubeflow_jobs(), ray_clusters())
