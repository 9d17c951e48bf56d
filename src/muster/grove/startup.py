"""The order in which cliques start: whom a clique waits for, and when its pods may start.

Rule 1: all pods of a gang are bound first; then an init container of each pod waits until an annotation of its pod says
that it may start. The annotation is a file in the container: no credentials, no network, no address. Rule 2: a parent
counts by `minAvailable` ready pods, or not at all while it is scaled to zero. Rule 3: a pod that may start always may.
"""

from collections.abc import Iterable, Iterator

from muster.api import names
from muster.api.fields import integer, items, mapping, number, text, texts
from muster.api.grove.pod_clique_set import ANY_ORDER
from muster.api.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.grove.cliques.clique_pods import CliquePod
from muster.grove.health import minimum_of
from muster.grove.naming import clique_name, group_name
from muster.workloads.operators.objects import name_of, strings
from muster.workloads.types import Children, Raw, Update

CONTAINER = "muster-wait-for-cliques"  # the init container
VOLUME = "muster-startup"
FOLDER, FILE = "/etc/muster/startup", "startup"
START = "start"  # the annotation of a pod that may start
USER = 65532  # of muster's image
MOST_PARENTS = 1_000  # that are looked at
MOST_GROUP_REPLICAS = 10_000
LONGEST_TEXT = 2_000


# the pod ------------------------------------------------------------------------------------------------------------


def add_wait(spec: Raw, image: str) -> Raw:
    """A pod spec with the init container that waits; it comes last, so that others download and prepare meanwhile."""
    field = {"fieldPath": f"metadata.annotations['{names.STARTUP}']"}
    volume = {"name": VOLUME, "downwardAPI": {"items": [{"path": FILE, "fieldRef": field}]}}
    return {
        **spec,
        "initContainers": [*items(spec, "initContainers"), _container(spec, image)],
        "volumes": [*items(spec, "volumes"), volume],
    }


def _container(spec: Raw, image: str) -> Raw:
    return {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["wait-for-cliques", f"{FOLDER}/{FILE}"],
        "resources": _resources(spec),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}],
    }


def _resources(spec: Raw) -> Raw:
    """CPU and memory of the first container: the pod needs no more than before, and keeps its QoS class."""
    first = next(iter(items(spec, "containers")), {})
    resources: Raw = {}
    for field in ("requests", "limits"):
        amounts = {name: value for name, value in mapping(first, f"resources.{field}").items() if name in _KEPT}
        if amounts:
            resources[field] = amounts
    return resources


_KEPT = ("cpu", "memory")


def is_waiting(pod: Raw) -> bool:
    """Whether a pod has to wait for other cliques before its containers start."""
    return _waits(pod) and texts(pod, "metadata.annotations").get(names.STARTUP) != START


def _waits(pod: Raw) -> bool:
    return any(container.get("name") == CONTAINER for container in items(pod, "spec.initContainers"))


# whom a clique waits for --------------------------------------------------------------------------------------------


def parents_of(clique: Raw) -> list[str]:
    """The PodCliques that a clique starts after."""
    return strings(clique, "spec.startsAfter")[:MOST_PARENTS]


def describe_wait(clique: Raw) -> str:
    """The annotation of a pod that waits."""
    description = f"after {', '.join(parents_of(clique))}"
    return description if len(description) <= LONGEST_TEXT else f"{description[:LONGEST_TEXT]}…"


def may_start(clique: Raw, pcs: Raw | None, children: Children) -> bool:
    """Whether every parent of a clique has enough ready pods."""
    namespace, missing = text(clique, "metadata.namespace"), []
    for name in parents_of(clique):
        parent = children.get(POD_CLIQUES, namespace, name)
        if parent is None:
            missing.append(name)
        elif not has_started(parent):
            return False
    return not missing or set(missing) <= _scaled_away(clique, pcs, children)


def has_started(clique: Raw) -> bool:
    """Whether enough pods of a clique are ready for those that start after it."""
    return integer(clique, "status.readyReplicas") >= minimum_of(clique)


def _scaled_away(clique: Raw, pcs: Raw | None, children: Children) -> set[str]:
    """Cliques of the base gang that do not exist because their scaling group has fewer replicas."""
    absent: set[str] = set()
    for group, minimum, cliques in _groups(clique, pcs):
        scaled = children.get(POD_CLIQUE_SCALING_GROUPS, text(clique, "metadata.namespace"), group)
        replicas = integer(scaled, "spec.replicas", 1) if scaled else minimum
        absent.update(clique_name(group, index, each) for index in range(replicas, minimum) for each in cliques)
    return absent


def _groups(clique: Raw, pcs: Raw | None) -> Iterator[tuple[str, int, list[str]]]:
    """Scaling groups of the replica that a clique belongs to: name, minimum and the cliques of each replica."""
    replica = number(texts(clique, "metadata.labels").get(names.SET_REPLICA, ""))
    if pcs is None or replica is None:
        return
    for group in items(pcs, "spec.template.podCliqueScalingGroups"):
        minimum = min(max(1, integer(group, "minAvailable", 1)), MOST_GROUP_REPLICAS)
        yield group_name(name_of(pcs), replica, text(group, "name")), minimum, strings(group, "cliqueNames")


# letting pods start -------------------------------------------------------------------------------------------------


def release_pods(clique: Raw, pods: Iterable[CliquePod], pcs: Raw | None, children: Children) -> Iterator[Update]:
    """Let bound pods start once their parents have."""
    waiting = [pod for pod in pods if pod.is_bound and is_waiting(pod.raw)]
    if waiting and may_start(clique, pcs, children):
        patch = {"metadata": {"annotations": {names.STARTUP: START}}}
        for pod in waiting:
            yield Update(PODS, text(clique, "metadata.namespace"), pod.name, patch)


def dependents_of(clique: Raw, children: Children) -> Iterator[tuple[str, str]]:
    """Namespace and name of cliques that wait for this one, where it has started: what a change of it concerns.

    Scaled replicas wait for cliques of the same replica only, so that the base gang and that replica are all.
    """
    namespace, set_name = text(clique, "metadata.namespace"), texts(clique, "metadata.labels").get(names.PART_OF, "")
    pcs = children.get(POD_CLIQUE_SETS, namespace, set_name)
    if pcs is None or text(pcs, "spec.template.cliqueStartupType") in ("", ANY_ORDER) or not has_started(clique):
        return
    own = name_of(clique)
    for name in _candidates(clique, pcs):
        other = children.get(POD_CLIQUES, namespace, name)
        if other is not None and own in parents_of(other):
            yield namespace, name


def _candidates(clique: Raw, pcs: Raw) -> Iterator[str]:
    """The cliques of the base gang, and those of the same replica of the scaling group."""
    labels = texts(clique, "metadata.labels")
    replica, own_group = number(labels.get(names.SET_REPLICA, "")), labels.get(names.SCALING_GROUP, "")
    if replica is None:
        return
    for template in items(pcs, "spec.template.cliques"):
        yield clique_name(name_of(pcs), replica, text(template, "name"))
    own_index = number(labels.get(names.SCALING_GROUP_REPLICA, "")) or 0
    for group, minimum, cliques in _groups(clique, pcs):
        is_scaled = group == own_group and own_index >= minimum
        for index in (own_index,) if is_scaled else range(minimum):
            yield from (clique_name(group, index, each) for each in cliques)
