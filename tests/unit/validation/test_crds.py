"""CRDs are structural and complete, and agree with the validation rules."""

from collections.abc import Iterator
from typing import Any

import pytest

from muster.validation.crds import CEL, crds

ALL = {crd["spec"]["names"]["kind"]: crd for crd in crds()}


def schemas(schema: dict[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield at, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{at}.{name}")
    for field in ("items", "additionalProperties"):
        if isinstance(schema.get(field), dict):
            yield from schemas(schema[field], f"{at}[]")


def whole(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = ALL[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("kind", ALL)
def test_every_schema_is_structural(kind: str) -> None:
    """Kubernetes rejects others: a type everywhere, no references, no null."""
    for at, schema in schemas(whole(kind)):
        assert "$ref" not in schema, at
        assert schema.get("x-kubernetes-int-or-string") or isinstance(schema.get("type"), str), at


@pytest.mark.parametrize("kind", ALL)
def test_every_field_is_described(kind: str) -> None:
    """`kubectl explain` prints the descriptions."""
    skip = (".apiVersion", ".kind", ".metadata")
    for at, schema in schemas(whole(kind)):
        assert schema.get("description") or at in skip or at.endswith("[]"), at


def test_names_scopes_and_subresources_are_those_of_the_contract() -> None:
    """Other programs rely on them."""
    kinds = {
        kind: (
            crd["metadata"]["name"],
            crd["spec"]["versions"][0]["name"],
            crd["spec"]["names"]["shortNames"],
            crd["spec"]["scope"],
            "subresources" in crd["spec"]["versions"][0],
        )
        for kind, crd in ALL.items()
    }
    assert kinds == {
        "PodGroup": ("podgroups.scheduling.run.ai", "v2alpha2", ["pg"], "Namespaced", True),
        "Queue": ("queues.scheduling.run.ai", "v2", ["q"], "Cluster", True),
        "Topology": ("topologies.kai.scheduler", "v1alpha1", ["topo"], "Cluster", False),
        "PodCliqueSet": ("podcliquesets.grove.io", "v1alpha1", ["pcs"], "Namespaced", True),
        "PodClique": ("podcliques.grove.io", "v1alpha1", ["pclq"], "Namespaced", True),
        "PodCliqueScalingGroup": ("podcliquescalinggroups.grove.io", "v1alpha1", ["pcsg"], "Namespaced", True),
        "PodGang": ("podgangs.scheduler.grove.io", "v1alpha1", ["pgang"], "Namespaced", True),
        "ClusterTopologyBinding": ("clustertopologybindings.grove.io", "v1alpha1", ["ct"], "Cluster", True),
    }


def test_a_podgroup_prints_queue_minimums_satisfied_phase_reason_and_age() -> None:
    """`kubectl get pg` shows them."""
    columns = [column["name"] for column in ALL["PodGroup"]["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert columns == ["Queue", "Min-Pods", "Min-Groups", "Satisfied", "Phase", "Reason", "Age"]


def test_rules_of_v1_and_v2_do_not_reject_what_is_stored_already() -> None:
    """V4: the ratchet holds in the API server, too, also for what is not supported (R8), constraints (R5) and a limit.

    The limit on PodCliques is younger than the CRDs: without it, larger sets could have no status, and not be deleted.
    """
    for rules in CEL.values():
        for rule in rules:
            cited = rule["message"].rsplit("(", 1)[-1].rstrip(")")
            is_limit = "one set has at most" in rule["message"]
            assert rule.get("optionalOldSelf", False) == (cited in ("V1", "V2", "R5", "R8") or is_limit), rule


def test_fields_of_older_dialects_are_rejected_not_dropped() -> None:
    """The API server would prune `subgroups`, and with it the whole tree, if the schema did not know the field."""
    spec = whole("PodGroup")["properties"]["spec"]
    rules = {rule["rule"] for rule in spec["x-kubernetes-validations"]}
    assert {"!has(self.subgroups)", "!has(self.topologyConstraints)"} <= rules
    assert {"subgroups", "topologyConstraints"} <= set(spec["properties"])


@pytest.mark.parametrize(
    ("kind", "shown", "wide"),
    [
        ("PodCliqueSet", ["Replicas", "Available", "Updated", "Age"], []),
        (
            "PodClique",
            ["MinAvail", "Replicas", "Ready", "Scheduled", "Updated", "Age"],
            ["Gated", "MinBreached"],
        ),
        ("PodCliqueScalingGroup", ["MinAvail", "Replicas", "Available", "Scheduled", "Updated", "Age"], []),
        ("PodGang", ["Phase", "Age"], []),
        ("ClusterTopologyBinding", ["Domains", "Age"], []),
    ],
)
def test_groves_kinds_print_what_their_users_know(kind: str, shown: list[str], wide: list[str]) -> None:
    """`kubectl get`, and more with `-o wide`."""
    columns = ALL[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in columns if not column.get("priority")] == shown
    assert [column["name"] for column in columns if column.get("priority")] == wide


def test_sets_cliques_and_groups_are_scaled_by_selectors_of_their_status() -> None:
    """Autoscalers read them; nothing else has a scale."""
    scales = {
        kind: crd["spec"]["versions"][0].get("subresources", {}).get("scale", {}).get("labelSelectorPath")
        for kind, crd in ALL.items()
    }
    assert {kind: path for kind, path in scales.items() if path} == {
        "PodCliqueSet": ".status.hpaPodSelector",
        "PodClique": ".status.hpaPodSelector",
        "PodCliqueScalingGroup": ".status.selector",
    }


def test_fields_that_are_not_supported_are_rejected_not_dropped() -> None:
    """R8: the API server would prune what no schema knows."""
    template = whole("PodCliqueSet")["properties"]["spec"]["properties"]["template"]
    parts = {
        "set": template,
        "clique": template["properties"]["cliques"]["items"],
        "group": template["properties"]["podCliqueScalingGroups"]["items"],
    }
    fields = {
        "set": ["resourceClaimTemplates", "resourceSharing"],
        "clique": ["resourceSharing", "rollingUpdate"],
        "group": ["resourceSharing", "rollingUpdate", "terminationDelay"],
    }
    for name, part in parts.items():
        rules = " ".join(rule["rule"] for rule in part["x-kubernetes-validations"])
        for field in fields[name]:
            assert field in part["properties"]
            assert f"!has(self.{field})" in rules
