"""Every label and annotation that muster reads or writes, once, and what a DNS label is. Kinds are in `resources`."""

import re
from typing import Final

# `apiVersion` of what muster prints: plans, what-ifs, conformance cases
OURS: Final = "muster.dev/v1"

# on pods: which gang, which leaf (N3), and who comes first in it (M4)
POD_GROUP: Final = "pod-group-name"  # annotation
SUBGROUP: Final = "kai.scheduler/subgroup-name"  # label
TASK_PRIORITY: Final = "kai.scheduler/task-priority"  # label
SHARED_GPU: Final = ("gpu-fraction", "gpu-memory")  # annotations: a part of a GPU, which muster does not place

# on workloads and PodGroups: what the spec leaves out
QUEUE: Final = "kai.scheduler/queue"  # label
PREEMPTIBILITY: Final = "kai.scheduler/preemptibility"  # label
PRIORITY_CLASS: Final = "priorityClassName"  # label
TOPOLOGY: Final = "kai.scheduler/topology"  # annotation
TOPOLOGY_REQUIRED: Final = "kai.scheduler/topology-required-placement"  # annotation
TOPOLOGY_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"  # annotation

# on workloads: how the pod grouper reads them
SKIP_GROUPING: Final = "kai.scheduler/skip-podgrouper"  # annotation or label: any value
BATCH_MIN_MEMBER: Final = "kai.scheduler/batch-min-member"  # annotation
SEGMENT_SIZE: Final = "kai.scheduler/segment-size"  # annotation
SEGMENT_TOPOLOGY_REQUIRED: Final = "kai.scheduler/segment-topology-required-placement"  # annotation
SEGMENT_TOPOLOGY_PREFERRED: Final = "kai.scheduler/segment-topology-preferred-placement"  # annotation
NODE_POOL: Final = "kai.scheduler/node-pool"  # label, on PodGroups and nodes as well
PROJECT: Final = "project"  # label: the queue, where no label names one

# on objects that `kubectl apply` created: the whole manifest
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"  # annotation

# on pods and PodGroups that muster grouped: the kind whose rule chose the PodGroup
GROUPED_BY: Final = "muster.dev/grouped-by"  # annotation
GROUPING: Final = "muster.dev/grouping"  # annotation, on PodGroups: a digest of what muster applied last

# on PodGroups: the only memory of gangs that fall short (S2, S3) and of run times; RFC 3339
STALE_SINCE: Final = "kai.scheduler/stale-podgroup-timestamp"  # annotation
STALE_SUBGROUPS: Final = "muster.dev/stale-subgroups"  # annotation: JSON, SubGroup -> since when
LAST_START: Final = "kai.scheduler/last-start-timestamp"  # annotation
BACKED_OFF: Final = "muster.dev/backed-off"  # annotation: what the one attempt of S4 was made on
MOVED_TO: Final = "muster.dev/moved-to"  # annotation: JSON, places that are kept for pods that move (P7)
NOTES_OF_TIME: Final = frozenset(
    (STALE_SINCE, STALE_SUBGROUPS, LAST_START, MOVED_TO)
)  # they matter when time has passed

# on what becomes of a PodCliqueSet: labels unless said otherwise
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"  # the PodCliqueSet
APP_NAME: Final = "app.kubernetes.io/name"
COMPONENT: Final = "app.kubernetes.io/component"
GROVE_OPERATOR: Final = "grove-operator"  # value of MANAGED_BY
POD_CLIQUE: Final = "grove.io/podclique"
POD_GANG: Final = "grove.io/podgang"
BASE_POD_GANG: Final = "grove.io/base-podgang"  # on PodCliques, pods and PodGangs of scaled gangs
SET_REPLICA: Final = "grove.io/podcliqueset-replica-index"
SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
SCALING_GROUP_REPLICA: Final = "grove.io/podcliquescalinggroup-replica-index"
POD_INDEX: Final = "grove.io/podclique-pod-index"
TEMPLATE_HASH: Final = "grove.io/pod-template-hash"
GENERATION_HASH: Final = "grove.io/podcliqueset-generation-hash"  # on PodCliqueScalingGroups: what they may update to
TOPOLOGY_NAME: Final = "grove.io/topology-name"  # annotation, on PodGangs
GANG_GATE: Final = "grove.io/podgang-pending-creation"  # scheduling gate
WAITS_FOR: Final = "muster.dev/waits-for"  # annotation, on pods that this gate holds: why, in one sentence
FAILURES = "muster.dev/failures"  # annotation of a pod: how many pods in its place failed before it
PINNED_BY: Final = "muster.dev/pinned-by"  # annotation, on pods: node labels that muster added to their node selector
BRIDGED: Final = "muster.dev/podgang"  # annotation, on PodGroups that muster made of a PodGang: "true"
SCALED_GANGS: Final = "muster.dev/scaled-gangs"  # annotation, on PodGroups of base gangs: JSON, which follow them
STARTUP: Final = "muster.dev/startup"  # annotation, on pods that start after other cliques: what for, then `start`

# on claims that wait for their first consumer: the node on which their volume is made
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"  # annotation

# on every namespace: its name
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"

# well-known node labels whose place in a Topology is certain
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"

# resources: what `gpu` stands for in a Queue
GPU: Final = "nvidia.com/gpu"

DEFAULT_SCHEDULER: Final = "muster"  # what pods of ours name in `spec.schedulerName`, unless configured (N6)
DEFAULT_NAMESPACE: Final = "default"
DEFAULT_QUEUE: Final = "default"

PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
SEMI_PREEMPTIBLE: Final = "semi-preemptible"

# what namespaces and SubGroups may be called, as labels of pods and parts of host names: for `fullmatch`
LONGEST_LABEL: Final = 63
DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
