"""What the operator of LeaderWorkerSets writes on pods: labels, annotations, and what its admission webhook adds.

Rule: `complete_pod` is that webhook. A pod that it has completed stays as it is; a pod of another workload too.
"""

from muster.api.fields import integer, items, mapping, number, text, texts
from muster.workloads.operators.objects import name_of, sha1_of, with_variables
from muster.workloads.types import Raw

_PREFIX = "leaderworkerset.sigs.k8s.io"
# labels
SET_NAME, GROUP_INDEX, WORKER_INDEX = f"{_PREFIX}/name", f"{_PREFIX}/group-index", f"{_PREFIX}/worker-index"
GROUP_KEY, REVISION = f"{_PREFIX}/group-key", f"{_PREFIX}/template-revision-hash"
SUBGROUP_INDEX, SUBGROUP_KEY = f"{_PREFIX}/subgroup-index", f"{_PREFIX}/subgroup-key"
# annotations
SIZE, REPLICAS, LEADER_NAME = f"{_PREFIX}/size", f"{_PREFIX}/replicas", f"{_PREFIX}/leader-name"
SUBGROUP_SIZE, SUBGROUP_POLICY = f"{_PREFIX}/subgroup-size", f"{_PREFIX}/subgroup-policy-type"
EXCLUSIVE, SUBGROUP_EXCLUSIVE = f"{_PREFIX}/exclusive-topology", f"{_PREFIX}/subgroup-exclusive-topology"
SUBDOMAIN_POLICY, UNIQUE_PER_REPLICA = f"{_PREFIX}/subdomainPolicy", "UniquePerReplica"
LEADER = "0"  # worker index of a leader
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def complete_pod(pod: Raw) -> Raw:
    """The pod with its indices, keys, affinities and environment variables."""
    labels, annotations = texts(pod, "metadata.labels"), texts(pod, "metadata.annotations")
    size, ordinal = number(annotations.get(SIZE, "")), _ordinal(name_of(pod))
    if SET_NAME not in labels or size is None or ordinal is None:
        return pod
    is_leader = labels.get(WORKER_INDEX) == LEADER
    added = _leader_labels(pod, labels, ordinal) if is_leader else {WORKER_INDEX: str(ordinal)}
    labels = {**labels, **added}
    subgroup = _subgroup_of(annotations, size, ordinal, is_leader=is_leader)
    if subgroup is not None and not labels.get(SUBGROUP_INDEX):
        leader = name_of(pod) if is_leader else annotations.get(LEADER_NAME, "")
        labels |= {SUBGROUP_INDEX: str(subgroup), SUBGROUP_KEY: sha1_of(f"{leader}/{subgroup}")}
    spec = _completed_spec(pod, labels, annotations, is_leader=is_leader)
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec}


def missing_labels(pod: Raw) -> dict[str, str]:
    """Labels that the webhook would have added; empty: it has."""
    labels = pod["metadata"].get("labels") or {}
    if GROUP_INDEX in labels and WORKER_INDEX in labels:
        return {}
    completed = texts(complete_pod(pod), "metadata.labels")
    return {name: value for name, value in completed.items() if labels.get(name) != value}


def subgroup_of_worker(size: int, subgroup_size: int, worker: int) -> int:
    """The subgroup of a worker. Where the workers alone fill subgroups, the leader is an extra pod of the first."""
    shift = 1 if (size - 1) % subgroup_size == 0 else 0
    return (worker - shift) // subgroup_size


def subgroup_annotations(lws: Raw) -> dict[str, str]:
    """The annotations of leaders and workers that concern subgroups."""
    policy, own = mapping(lws, "spec.leaderWorkerTemplate.subGroupPolicy"), texts(lws, "metadata.annotations")
    if not policy:
        return {}
    exclusive = own.get(SUBGROUP_EXCLUSIVE, "")
    return {
        SUBGROUP_SIZE: str(integer(policy, "subGroupSize")),
        **({SUBGROUP_EXCLUSIVE: exclusive} if exclusive else {}),
    }


def _ordinal(name: str) -> int | None:
    return number(name.rpartition("-")[2])


def _leader_labels(pod: Raw, labels: dict[str, str], ordinal: int) -> dict[str, str]:
    group_key = sha1_of(f"{text(pod, 'metadata.namespace')}/{name_of(pod)}")
    return {GROUP_INDEX: labels.get(GROUP_INDEX, str(ordinal)), GROUP_KEY: labels.get(GROUP_KEY, group_key)}


def _subgroup_of(annotations: dict[str, str], size: int, ordinal: int, *, is_leader: bool) -> int | None:
    subgroup_size = number(annotations.get(SUBGROUP_SIZE, ""))
    if not subgroup_size:
        return None
    if is_leader:
        return None if annotations.get(SUBGROUP_POLICY) == "LeaderExcluded" else 0
    return subgroup_of_worker(size, subgroup_size, ordinal)


def _completed_spec(pod: Raw, labels: dict[str, str], annotations: dict[str, str], *, is_leader: bool) -> Raw:
    spec = dict(mapping(pod, "spec"))
    if is_leader and annotations.get(SUBDOMAIN_POLICY) == UNIQUE_PER_REPLICA:
        spec["subdomain"] = name_of(pod)
    if is_leader and annotations.get(EXCLUSIVE):
        spec = exclusive_affinity(spec, GROUP_KEY, labels[GROUP_KEY], annotations[EXCLUSIVE])
    if annotations.get(SUBGROUP_EXCLUSIVE) and SUBGROUP_KEY in labels:
        spec = exclusive_affinity(spec, SUBGROUP_KEY, labels[SUBGROUP_KEY], annotations[SUBGROUP_EXCLUSIVE])
    return with_variables(spec, _variables(pod, spec, labels, annotations))


def _variables(pod: Raw, spec: Raw, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, str]:
    leader = f"{labels[SET_NAME]}-{labels.get(GROUP_INDEX, '')}"
    return {
        "LWS_LEADER_ADDRESS": f"{leader}.{text(spec, 'subdomain')}.{text(pod, 'metadata.namespace')}",
        "LWS_GROUP_SIZE": annotations[SIZE],
        "LWS_WORKER_INDEX": labels[WORKER_INDEX],
    }


def exclusive_affinity(spec: Raw, label: str, key: str, topology: str) -> Raw:
    """A pod spec that asks for a domain with pods of this key and without pods of any other key."""
    affinity = dict(mapping(spec, "affinity"))
    near, far = mapping(affinity, "podAffinity"), mapping(affinity, "podAntiAffinity")
    if _has_term(near, topology) and _has_term(far, topology):
        return spec
    same: list[Raw] = [{"key": label, "operator": "In", "values": [key]}]
    others: list[Raw] = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [key]}]
    affinity["podAffinity"] = {**near, _TERMS: [*items(near, _TERMS), _term(same, topology)]}
    affinity["podAntiAffinity"] = {**far, _TERMS: [*items(far, _TERMS), _term(others, topology)]}
    return {**spec, "affinity": affinity}


def _term(expressions: list[Raw], topology: str) -> Raw:
    return {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}


def _has_term(rules: Raw, topology: str) -> bool:
    return any(term.get("topologyKey") == topology for term in items(rules, _TERMS))
