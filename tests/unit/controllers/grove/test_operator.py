"""What Grove's operator keeps of a cluster, and which sets are its own."""

import pytest

from muster.api import names
from muster.api.resources import NODES, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS, PODS
from muster.config.settings import GroveOperator
from muster.controllers.grove.operator import controllers_of, kept
from muster.kube.cluster import Raw

OURS = frozenset(("muster", "kai-scheduler"))


def pcs(*schedulers: str) -> Raw:
    cliques = [{"name": f"c{i}", "spec": {"podSpec": {"schedulerName": name}}} for i, name in enumerate(schedulers)]
    return {"metadata": {"name": "w"}, "spec": {"template": {"cliques": cliques}}}


@pytest.mark.parametrize(
    ("schedulers", "is_kept"),
    [(("muster",), True), (("kai-scheduler", ""), True), (("",), True), (("other",), False), (("", "other"), False)],
)
def test_sets_of_other_schedulers_are_left_alone(schedulers: tuple[str, ...], is_kept: bool) -> None:
    """A set whose pods name no scheduler gets ours."""
    assert (kept(OURS, POD_CLIQUE_SETS, pcs(*schedulers)) is not None) == is_kept


def test_pods_of_no_set_are_not_kept() -> None:
    labels = {names.MANAGED_BY: names.GROVE_OPERATOR}
    assert kept(OURS, PODS, {"metadata": {"name": "p"}}) is None
    assert kept(OURS, PODS, {"metadata": {"name": "p", "labels": labels}}) is not None


def test_a_pod_of_a_clique_is_kept_without_its_labels() -> None:
    """Else a clique would make another one in its place whenever a label is taken off."""
    owner = {
        "apiVersion": POD_CLIQUES.api_version,
        "kind": POD_CLIQUES.kind,
        "name": "c",
        "uid": "u",
        "controller": True,
    }
    assert kept(OURS, PODS, {"metadata": {"name": "p", "ownerReferences": [owner]}}) is not None


def test_of_nodes_only_identity_and_labels_are_kept() -> None:
    node = {"metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}, "annotations": {"c": "d"}}, "status": {"x": 1}}
    assert kept(OURS, NODES, node) == {"metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}}}


def test_beside_another_operator_only_gangs_are_reconciled() -> None:
    assert set(controllers_of(GroveOperator(mode="bridge"), ["muster"])) == {POD_GANGS}
    assert {POD_CLIQUE_SETS, POD_CLIQUES, POD_GANGS} <= set(controllers_of(GroveOperator(), ["muster"]))
