"""The protobuf that kubectl sends is decoded exactly or rejected: no field is dropped silently."""

from typing import Any

import pytest

from muster.embedded.rest.protobuf import MESSAGES, read
from muster.kube.errors import ApiError


def varint(number: int) -> bytes:
    encoded = b""
    number %= 2**64
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def sent(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + field(3, "") + field(4, "")


METADATA = field(1, field(1, "x") + field(2, "") + field(8, b""))
PODS = field(2, field(2, field(1, "main") + field(8, field(1, field(1, "cpu") + field(2, field(1, "2"))))))
SPECS: list[tuple[str, str, bytes, dict[str, Any]]] = [
    ("v1", "Namespace", METADATA + field(2, b"") + field(3, field(1, "")), {}),
    ("v1", "ConfigMap", METADATA + field(2, field(1, "a") + field(2, "1")), {"data": {"a": "1"}}),
    ("v1", "ConfigMap", METADATA + field(2, field(1, "a")), {"data": {"a": ""}}),
    ("v1", "ConfigMap", METADATA + field(4, 0), {"immutable": False}),
    ("v1", "Secret", METADATA + field(2, field(1, "a") + field(2, b"\xff")) + field(3, ""), {"data": {"a": "/w=="}}),
    ("scheduling.k8s.io/v1", "PriorityClass", METADATA + field(2, -5) + field(3, 0), {"value": -5}),
    ("scheduling.k8s.io/v1", "PriorityClass", METADATA + field(2, 0), {"value": 0}),
    (
        "policy/v1",
        "PodDisruptionBudget",
        METADATA
        + field(2, field(1, field(1, 1) + field(2, 0) + field(3, "50%")) + field(3, field(1, 0) + field(2, 0))),
        {"spec": {"minAvailable": "50%", "maxUnavailable": 0}},
    ),
    (
        "apps/v1",
        "Deployment",
        METADATA + field(2, field(1, 0) + field(3, PODS)),
        {
            "spec": {
                "replicas": 0,
                "template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}},
            }
        },
    ),
    (
        "batch/v1",
        "CronJob",
        METADATA
        + field(
            2, field(1, "* * * * *") + field(3, "") + field(4, 0) + field(5, field(2, field(1, 1) + field(6, PODS)))
        ),
        {
            "spec": {
                "schedule": "* * * * *",
                "suspend": False,
                "jobTemplate": {
                    "spec": {
                        "parallelism": 1,
                        "template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}},
                    }
                },
            }
        },
    ),
    (
        "v1",
        "Service",
        METADATA
        + field(
            2,
            field(1, field(1, "web") + field(2, "TCP") + field(3, 80) + field(4, field(1, 0) + field(2, 8080)))
            + field(2, field(1, "app") + field(2, "x"))
            + field(4, "ClusterIP")
            + field(12, 0),
        ),
        {
            "spec": {
                "ports": [{"name": "web", "protocol": "TCP", "port": 80, "targetPort": 8080}],
                "selector": {"app": "x"},
                "type": "ClusterIP",
            }
        },
    ),
    (
        "policy/v1",
        "Eviction",
        METADATA + field(2, field(1, 0) + field(2, field(1, "u")) + field(5, "All")),
        {"deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]}},
    ),
]


@pytest.mark.parametrize(("api_version", "kind", "raw", "expected"), SPECS)
def test_objects_are_decoded_as_their_json(api_version: str, kind: str, raw: bytes, expected: dict[str, Any]) -> None:
    """Empty fields that Go always writes are left out; significant zeros stay."""
    assert read(sent(api_version, kind, raw)) == {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x"},
        **expected,
    }


def test_a_namespace_that_kubectl_sends_is_decoded() -> None:
    """Recorded from kubectl 1.33: `kubectl create namespace x`."""
    data = b'k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x19\n\x11\n\x01x\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00'
    data += b'\x12\x00\x1a\x02\n\x00\x1a\x00"\x00'
    assert read(data) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}


def test_times_are_decoded() -> None:
    """As RFC 3339."""
    raw = read(sent("v1", "Namespace", field(1, field(8, field(1, 1767225600)))))
    assert raw["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "data",
    [
        sent("v1", "Pod", METADATA),
        sent("v1", "Namespace", METADATA + field(9, "x")),
        sent("apps/v1", "Deployment", field(2, field(3, field(2, field(1, "volume"))))),
    ],
)
def test_unsupported_fields_and_kinds_are_rejected(data: bytes) -> None:
    """No object is better than half of one."""
    with pytest.raises(ApiError, match="kubectl apply") as caught:
        read(data)
    assert caught.value.status == 415


@pytest.mark.parametrize(("api_version", "kind", "raw", "expected"), SPECS)
def test_truncated_and_corrupt_bodies_are_rejected(
    api_version: str, kind: str, raw: bytes, expected: dict[str, Any]
) -> None:
    """At every byte: an object, or a client error."""
    data = sent(api_version, kind, raw)
    for at in range(len(data)):
        assert status(data[:at]) in (200, 400, 415)
        assert status(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]) in (200, 400, 415)


def status(data: bytes) -> int:
    try:
        read(data)
    except ApiError as error:
        return error.status
    return 200


def test_the_table_refers_only_to_its_own_messages() -> None:
    """A typo would be a 500."""
    simple = {"s", "i", "b", "x", "-", "IntOrString", "Quantity", "Time"}
    assert {field.type for fields in MESSAGES.values() for field in fields.values()} <= simple | set(MESSAGES)
