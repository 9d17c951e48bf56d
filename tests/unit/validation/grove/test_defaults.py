"""Defaults of a PodCliqueSet: those of Grove, once, and only for what is left out."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.validation.check import check
from muster.validation.grove.defaults import with_set_defaults
from tests.support.factories import Raw
from tests.support.grove import clique, group, pod_clique_set

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def bare() -> Raw:
    """Nothing but what must be stated."""
    raw = pod_clique_set(clique("a"), clique("b"), groups=[group("g", "b")])
    del raw["spec"]["replicas"]
    for one in raw["spec"]["template"]["cliques"]:
        del one["spec"]["replicas"]
    for field in ("replicas", "minAvailable"):
        del raw["spec"]["template"]["podCliqueScalingGroups"][0][field]
    return raw


def template(raw: Raw) -> Raw:
    stated: Raw = raw["spec"]["template"]
    return stated


def test_what_is_left_out_has_the_defaults_of_grove() -> None:
    filled = with_set_defaults(bare())
    assert filled["spec"]["replicas"] == 0
    assert template(filled)["cliqueStartupType"] == "CliqueStartupTypeAnyOrder"
    assert template(filled)["terminationDelay"] == "4h0m0s"
    assert template(filled)["headlessServiceConfig"] == {"publishNotReadyAddresses": True}
    first = template(filled)["cliques"][0]["spec"]
    assert (first["replicas"], first["minAvailable"]) == (1, 1)
    assert "autoScalingConfig" not in first
    (only,) = template(filled)["podCliqueScalingGroups"]
    assert (only["replicas"], only["minAvailable"]) == (1, 1)


def test_a_clique_needs_all_its_replicas_and_scales_down_to_them() -> None:
    raw = pod_clique_set(clique("a", 3, spec={"autoScalingConfig": {"maxReplicas": 9}}))
    spec = template(with_set_defaults(raw))["cliques"][0]["spec"]
    assert spec["minAvailable"] == 3
    assert spec["autoScalingConfig"] == {"maxReplicas": 9, "minReplicas": 3}


def test_a_group_needs_one_replica_and_scales_down_to_all() -> None:
    raw = pod_clique_set(clique("a"), groups=[group("g", "a", replicas=3, scaleConfig={"maxReplicas": 9})])
    del template(raw)["podCliqueScalingGroups"][0]["minAvailable"]
    (only,) = template(with_set_defaults(raw))["podCliqueScalingGroups"]
    assert only["minAvailable"] == 1
    assert only["scaleConfig"]["minReplicas"] == 3


def test_what_is_stated_stays() -> None:
    raw = pod_clique_set(
        clique("a", 3, 2),
        groups=[group("g", "a", replicas=3, minimum=2, scaleConfig={"minReplicas": 2, "maxReplicas": 9})],
        cliqueStartupType="CliqueStartupTypeInOrder",
        terminationDelay="30m",
        headlessServiceConfig={"publishNotReadyAddresses": False},
    )
    assert with_set_defaults(raw) == raw


def test_a_set_without_groups_gets_none() -> None:
    """An empty list would be a difference to every manifest."""
    assert "podCliqueScalingGroups" not in template(with_set_defaults(pod_clique_set(clique("a"))))


def test_an_update_keeps_minimums_that_it_leaves_out() -> None:
    old = pod_clique_set(clique("a", 3), clique("b"), groups=[group("g", "b", replicas=4, minimum=2)])
    new = pod_clique_set(clique("a", 5), clique("b"), groups=[group("g", "b", replicas=4)])
    del template(new)["podCliqueScalingGroups"][0]["minAvailable"]
    filled = template(with_set_defaults(new, old))
    assert filled["cliques"][0]["spec"]["minAvailable"] == 3
    assert filled["podCliqueScalingGroups"][0]["minAvailable"] == 2


@settings(max_examples=50, deadline=None)
@given(JSON, JSON, JSON)
def test_defaults_are_set_once_and_never_stumble(cliques: Any, groups: Any, more: Any) -> None:
    """Whatever stands there: the input stays as it was, a second time changes nothing, and rules can judge it."""
    raw = pod_clique_set(clique("a"))
    template(raw).update(cliques=cliques, podCliqueScalingGroups=groups, headlessServiceConfig=more)
    before = deepcopy(raw)
    filled = with_set_defaults(raw)
    assert raw == before
    assert with_set_defaults(filled) == filled
    check(raw)
    check(raw, filled)


@settings(max_examples=50, deadline=None)
@given(JSON)
def test_any_value_instead_of_a_set_is_judged(value: Any) -> None:
    """A sentence, never a traceback."""
    for path in ("metadata", "spec", "status"):
        assert isinstance(check({**pod_clique_set(clique("a")), path: value}, value), tuple)
    raw = pod_clique_set(clique("a"))
    raw["spec"]["template"] = value
    assert check(raw)


def constrained(**constraint: Any) -> Raw:
    """A set with this constraint on all levels."""
    raw = pod_clique_set(
        clique("a", topologyConstraint=constraint), groups=[group("g", "a", topologyConstraint=constraint)]
    )
    template(raw)["topologyConstraint"] = constraint
    return raw


def constraints(raw: Raw) -> list[Any]:
    whole = template(with_set_defaults(raw))
    return [part["topologyConstraint"] for part in (whole, *whole["cliques"], *whole["podCliqueScalingGroups"])]


def test_the_older_form_of_a_constraint_becomes_the_form_of_record() -> None:
    named = {"topologyName": "dc", "packDomain": "rack"}
    assert constraints(constrained(**named)) == [{"topologyName": "dc", "pack": {"required": "rack"}}] * 3
    preferred = constrained(**named, pack={"preferred": "host"})
    assert constraints(preferred) == [{"topologyName": "dc", "pack": {"preferred": "host", "required": "rack"}}] * 3
    assert (
        constraints(constrained(packDomain="rack", pack={"required": "rack"})) == [{"pack": {"required": "rack"}}] * 3
    )


def test_two_forms_of_a_constraint_that_differ_stay_for_the_rules_to_report() -> None:
    for pack in ({"required": "host"}, "rack", ["rack"]):
        both = {"packDomain": "rack", "pack": pack}
        assert constraints(constrained(**both)) == [both] * 3
