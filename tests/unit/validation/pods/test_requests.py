"""A table of pods and what they ask of a node (X5)."""

from typing import Any

import pytest

from muster.api.core import PodSpec
from muster.api.decoding import decode
from muster.validation.pods.requests import requests
from tests.support.factories import Raw


def asks(**amounts: Any) -> Raw:
    return {"resources": {"requests": amounts}}


def may_use(**amounts: Any) -> Raw:
    return {"resources": {"limits": amounts}}


def sidecar(**amounts: Any) -> Raw:
    return asks(**amounts) | {"restartPolicy": "Always"}


GPU = "nvidia.com/gpu"
PODS: dict[str, tuple[Raw, dict[str, int]]] = {
    "nothing at all": ({}, {}),
    "a container that asks nothing": ({"containers": [{"name": "a"}]}, {}),
    "one container": ({"containers": [asks(cpu="500m", memory="1Gi")]}, {"cpu": 500, "memory": 2**30}),
    "containers add up": (
        {"containers": [asks(cpu="500m", memory="1Gi"), asks(cpu=1), asks(**{GPU: 2})]},
        {"cpu": 1500, "memory": 2**30, GPU: 2},
    ),
    "an init container that needs less": (
        {"containers": [asks(cpu=2)], "initContainers": [asks(cpu=1)]},
        {"cpu": 2000},
    ),
    "an init container that needs more": (
        {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=3), asks(cpu=2)]},
        {"cpu": 3000},
    ),
    "the most of each resource by itself": (
        {"containers": [asks(cpu=1, memory="4Gi")], "initContainers": [asks(cpu=3, memory="1Gi")]},
        {"cpu": 3000, "memory": 4 * 2**30},
    ),
    "a resource that only an init container needs": (
        {"containers": [asks(cpu=1)], "initContainers": [asks(**{GPU: 1})]},
        {"cpu": 1000, GPU: 1},
    ),
    "a sidecar runs beside the containers": (
        {"containers": [asks(cpu=1)], "initContainers": [sidecar(cpu=2)]},
        {"cpu": 3000},
    ),
    "a sidecar started before runs beside an init container": (
        {"containers": [asks(cpu=1)], "initContainers": [sidecar(cpu=2), asks(cpu=3)]},
        {"cpu": 5000},
    ),
    "a sidecar started after does not": (
        {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=3), sidecar(cpu=1)]},
        {"cpu": 3000},
    ),
    "two sidecars, one init container between them": (
        {"containers": [asks(cpu=1)], "initContainers": [sidecar(cpu=1), asks(cpu=4), sidecar(cpu=2)]},
        {"cpu": 5000},
    ),
    "sidecars and containers are the most": (
        {"containers": [asks(cpu=5)], "initContainers": [sidecar(cpu=1), asks(cpu=4), sidecar(cpu=2)]},
        {"cpu": 8000},
    ),
    "another restart policy is no sidecar": (
        {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=1) | {"restartPolicy": "OnFailure"}]},
        {"cpu": 1000},
    ),
    "overhead comes on top of everything": (
        {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=3)], "overhead": {"cpu": "250m", "memory": "64Mi"}},
        {"cpu": 3250, "memory": 2**26},
    ),
    "a limit without a request is one": (
        {"containers": [may_use(cpu=2, memory="1Gi")]},
        {"cpu": 2000, "memory": 2**30},
    ),
    "a request wins over a limit": (
        {"containers": [{"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 4, "memory": "1Gi"}}}]},
        {"cpu": 1000, "memory": 2**30},
    ),
    "a limit of an init container too": (
        {"containers": [asks(cpu=1)], "initContainers": [may_use(cpu=2)]},
        {"cpu": 2000},
    ),
    "the pod's own request replaces the sum": (
        {"containers": [asks(cpu=1), asks(cpu=1)], "resources": {"requests": {"cpu": 3}}},
        {"cpu": 3000},
    ),
    "the pod's own request, one resource of two": (
        {"containers": [asks(cpu=1, memory="1Gi")], "resources": {"requests": {"cpu": 3}}},
        {"cpu": 3000, "memory": 2**30},
    ),
    "the pod's own limit where containers ask nothing": (
        {"containers": [asks(memory="1Gi")], "resources": {"limits": {"cpu": 3, "memory": "9Gi"}}},
        {"cpu": 3000, "memory": 2**30},
    ),
    "the pod's own request wins over its limit": (
        {"containers": [{}], "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 3}}},
        {"cpu": 1000},
    ),
    "huge pages may be stated for the pod": (
        {"containers": [{}], "resources": {"requests": {"hugepages-2Mi": "4Mi"}}},
        {"hugepages-2Mi": 2**22},
    ),
    "devices may not": (
        {"containers": [asks(**{GPU: 1})], "resources": {"requests": {GPU: 8}, "limits": {GPU: 8}}},
        {GPU: 1},
    ),
    "overhead comes on top of the pod's own request": (
        {"containers": [asks(cpu=1)], "resources": {"requests": {"cpu": 2}}, "overhead": {"cpu": 1}},
        {"cpu": 3000},
    ),
    "tenths add up": ({"containers": [asks(cpu="0.1"), asks(cpu=0.2)]}, {"cpu": 300}),
}


@pytest.mark.parametrize("case", PODS)
def test_a_pod_asks_for_what_it_needs_at_its_busiest_moment(case: str) -> None:
    """Containers, init containers, sidecars in order, overhead, and what is stated for the whole pod."""
    spec, expected = PODS[case]
    decoded, wrong = decode(spec, PodSpec)
    assert wrong == ()
    assert {name: value for name, value in requests(decoded).items() if value} == expected
