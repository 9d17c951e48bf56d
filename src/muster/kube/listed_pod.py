"""A pod as lists and watches bring it: parts that many pods have in common stay JSON until one is seen first.

`encode_spec` gives equal bytes for pods of one template on one node, and `decode_spec` reads these bytes as a PodSpec.
"""

import msgspec
from msgspec.structs import replace

from muster.api.core import PodSpec, PodStatus
from muster.api.decoding import json_decoder
from muster.api.meta import ObjectMeta, Wire

UNSTATED = msgspec.Raw()


class ListedContainer(Wire, frozen=True):
    """A container: fields as in `Container`."""

    name: str = ""
    ports: msgspec.Raw = UNSTATED
    resources: msgspec.Raw = UNSTATED
    restart_policy: str = ""


class ListedVolume(Wire, frozen=True):
    """A volume without its name, which no rule reads: each pod has one with a name of its own."""

    persistent_volume_claim: msgspec.Raw = UNSTATED
    ephemeral: msgspec.Raw = UNSTATED


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
    volumes: tuple[ListedVolume, ...] = ()
    host_network: msgspec.Raw = UNSTATED
    resource_claims: msgspec.Raw = UNSTATED


class ListedPod(Wire, frozen=True):
    """A pod of any scheduler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ListedSpec = ListedSpec()
    status: PodStatus = PodStatus()


def encode_spec(spec: ListedSpec) -> bytes:
    """The spec as JSON."""
    return msgspec.json.encode(spec)


def decode_spec(data: bytes) -> PodSpec:
    """The PodSpec of such bytes; ValidationError where a part does not fit."""
    spec: PodSpec = json_decoder(PodSpec).decode(data)
    return with_pinning_volumes(spec)


def with_pinning_volumes(spec: PodSpec) -> PodSpec:
    """The spec with those volumes alone that can pin a pod to a place, and without their names."""
    pinning = [volume for volume in spec.volumes if volume.persistent_volume_claim or volume.ephemeral]
    return replace(spec, volumes=tuple([replace(volume, name="") for volume in pinning]))
