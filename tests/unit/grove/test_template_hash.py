"""Digests that tell whether pods are of the latest template."""

from typing import Any

import pytest

from muster.api.decoding import decode
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.grove.template_hash import clique_hash, generation_hash
from muster.workloads.types import Raw
from tests.support.grove import clique, pod_clique_set


def generation(raw: Raw) -> str:
    return generation_hash(decode(raw, PodCliqueSet)[0])


def only_hash(**template: Any) -> str:
    pcs = decode(pod_clique_set(clique("a", **template)), PodCliqueSet)[0]
    return clique_hash(pcs.spec.template.cliques[0], "")


def test_digests_stay_what_they_are_with_every_release() -> None:
    """Another digest would replace every pod of every set on an upgrade: never change these values."""
    assert only_hash() == "6ch5r8nlfg"
    assert generation(pod_clique_set(clique("a"), clique("b"), priorityClassName="high")) == "n4fxgjhk5f"


def test_the_order_of_fields_does_not_count() -> None:
    one = {"containers": [{"name": "m", "image": "i"}], "nodeSelector": {"x": "1", "y": "2"}}
    other = {"nodeSelector": {"y": "2", "x": "1"}, "containers": [{"image": "i", "name": "m"}]}
    assert only_hash(spec={"podSpec": one}) == only_hash(spec={"podSpec": other})


@pytest.mark.parametrize(
    "template",
    [
        {"spec": {"podSpec": {"containers": [{"name": "main", "image": "image:2"}]}}},
        {"labels": {"team": "x"}},
        {"annotations": {"team": "x"}},
    ],
)
def test_pod_spec_labels_and_annotations_count(template: Raw) -> None:
    assert only_hash(**template) != only_hash()


def test_the_priority_class_counts() -> None:
    assert generation(pod_clique_set(clique("a"), priorityClassName="x")) != generation(pod_clique_set(clique("a")))


def test_replicas_minimums_and_autoscaling_do_not_count() -> None:
    spec = {"replicas": 5, "minAvailable": 2, "autoScalingConfig": {"maxReplicas": 9}}
    assert only_hash(spec=spec) == only_hash()


def test_the_order_of_cliques_counts_for_the_set() -> None:
    cliques = clique("a"), clique("b", labels={"x": "y"})
    assert generation(pod_clique_set(*cliques)) != generation(pod_clique_set(*reversed(cliques)))
