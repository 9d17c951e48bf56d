"""A pod as lists and watches bring it: parts that many pods have in common stay JSON until one is seen first.

`encode_spec` gives equal bytes for pods of one template on one node, and `decode_spec` reads these bytes as a PodSpec.
"""

import msgspec
from msgspec.structs import replace

from muster.api.core import PodSpec, PodStatus, Volume
from muster.api.decoding import json_decoder
from muster.api.meta import ObjectMeta, Wire

UNSTATED = msgspec.Raw()


class ListedContainer(Wire, frozen=True):
    """A container: fields as in `Container`."""

    name: str = ""
    ports: msgspec.Raw = UNSTATED
    resources: msgspec.Raw = UNSTATED
    restart_policy: str = ""


class ListedSpec(Wire, frozen=True):
    """A spec: fields as in `PodSpec`."""

    node_name: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    priority: msgspec.Raw = UNSTATED
    containers: tuple[ListedContainer, ...] = ()
    init_containers: tuple[ListedContainer, ...] = ()
    overhead: msgspec.Raw = UNSTATED
    resources: msgspec.Raw = UNSTATED
    scheduling_gates: msgspec.Raw = UNSTATED
    node_selector: msgspec.Raw = UNSTATED
    affinity: msgspec.Raw = UNSTATED
    tolerations: msgspec.Raw = UNSTATED
    topology_spread_constraints: msgspec.Raw = UNSTATED
    volumes: tuple[Volume, ...] = ()
    host_network: msgspec.Raw = UNSTATED
    resource_claims: msgspec.Raw = UNSTATED


class ListedPod(Wire, frozen=True):
    """A pod of any scheduler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ListedSpec = ListedSpec()
    status: PodStatus = PodStatus()


def encode_spec(spec: ListedSpec) -> bytes:
    """The spec as JSON, without volumes that cannot pin a pod: each pod has one with a name of its own."""
    if spec.volumes:
        spec = replace(spec, volumes=pinning(spec.volumes))
    return msgspec.json.encode(spec)


def decode_spec(data: bytes) -> PodSpec:
    """The PodSpec of such bytes; ValidationError where a part does not fit."""
    spec: PodSpec = json_decoder(PodSpec).decode(data)
    return spec


def pinning(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Volumes that can pin a pod to a place."""
    return tuple([volume for volume in volumes if volume.persistent_volume_claim or volume.ephemeral])
