"""Names and labels of everything that becomes of a PodCliqueSet, as Grove gives them.

Rule 1: no other module builds such a name. Rule 2: names are only built, never taken apart: what an object belongs to
is in its labels, as names of sets, groups and cliques may hold dashes and numbers themselves.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from muster.api.names import (
    APP_NAME,
    COMPONENT,
    DNS_LABEL,
    GROVE_OPERATOR,
    LONGEST_LABEL,
    MANAGED_BY,
    PART_OF,
    SET_REPLICA,
)

# values of the label COMPONENT
SET_CLIQUE = "pcs-podclique"
GROUP_CLIQUE = "pcsg-podclique"
SET_GROUP = "pcs-podcliquescalinggroup"
GANG = "podgang"
SERVICE = "pcs-headless-service"
AUTOSCALER = "pcs-hpa"

SET_FINALIZER = "grove.io/podcliqueset.grove.io"


def service_name(set_name: str, replica: int) -> str:
    """The headless Service of a replica of a set; the subdomain of its pods."""
    return f"{set_name}-{replica}"


def service_address(set_name: str, replica: int, namespace: str) -> str:
    """The name by which pods of the cluster find that Service."""
    return f"{service_name(set_name, replica)}.{namespace}.svc.cluster.local"


def clique_name(owner: str, replica: int, clique: str) -> str:
    """The PodClique of a replica of a set, or of a replica of a PodCliqueScalingGroup."""
    return f"{owner}-{replica}-{clique}"


def base_cliques_name(group: str, clique: str) -> str:
    """All PodCliques of a template in a base gang's replicas of a PodCliqueScalingGroup: no object can be named so."""
    return f"{group}-*-{clique}"


def names_in_base(parent: str, replicas: Iterable[int]) -> Iterable[str]:
    """The PodCliques that a name stands for: those of these replicas where it has a star, else its own alone."""
    return [parent.replace("*", str(replica)) for replica in replicas] if "*" in parent else [parent]


def group_name(set_name: str, replica: int, group: str) -> str:
    """The PodCliqueScalingGroup of a replica of a set; its autoscaler has the same name."""
    return f"{set_name}-{replica}-{group}"


def group_replica_name(group: str, replica: int) -> str:
    """A replica of a PodCliqueScalingGroup, where a base gang constrains it."""
    return f"{group}-{replica}"


def base_gang_name(set_name: str, replica: int) -> str:
    """The gang of all that a replica of a set needs."""
    return f"{set_name}-{replica}"


def scaled_gang_name(group: str, replica: int, min_available: int) -> str:
    """The gang of a replica of a PodCliqueScalingGroup above its minimum."""
    return f"{group}-{replica - min_available}"


def branch_name(replica: str, taken: Collection[str]) -> str:
    """The branch of a PodGroup for a replica: its name, unless that is no DNS label or a clique has it."""
    valid = re.sub(r"[^a-z0-9]+", "-", replica.lower())[: LONGEST_LABEL - 6].strip("-") or "replica"
    first = replica if DNS_LABEL.fullmatch(replica) else valid
    candidates = (first, *(f"{valid}-g{number}" for number in range(len(taken) + 1)))
    return next(candidate for candidate in candidates if candidate not in taken)


def pod_name_prefix(clique: str) -> str:
    """What the API server completes to the name of a pod."""
    return f"{clique}-"


def pod_hostname(clique: str, pod_index: int) -> str:
    """The host name of a pod."""
    return f"{clique}-{pod_index}"


def set_labels(set_name: str) -> dict[str, str]:
    """Labels of everything that belongs to a set."""
    return {MANAGED_BY: GROVE_OPERATOR, PART_OF: set_name}


def child_labels(set_name: str, name: str, component: str, replica: int) -> dict[str, str]:
    """Labels of an object that belongs to one replica of a set."""
    return {**set_labels(set_name), APP_NAME: name, COMPONENT: component, SET_REPLICA: str(replica)}


def selector(labels: Mapping[str, str]) -> str:
    """Labels as a selector in text, such as the status of scalable objects holds it."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
