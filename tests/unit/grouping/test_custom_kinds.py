"""A user's own kinds by configuration."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from muster.config.loading import read
from muster.errors import InputError
from muster.grouping.custom_kinds import CustomKind, custom_rule
from muster.grouping.group import Assignment, assign
from muster.grouping.owners import OwnerChain
from muster.grouping.table import KindRule
from muster.grouping.types import Owner
from tests.support.owned_pods import annotated, assigned, grouped, labelled, owner, picture, pod, tree, ungrouped

GUIDE = Path(__file__).parents[3] / "docs/reference/grouping.md"
NAMES = {"apiVersion": "example.com/v1", "kind": "Simulation", "resource": "simulations"}


def rule(**settings: Any) -> KindRule:
    return custom_rule(msgspec.convert(NAMES | settings, CustomKind))


def simulation(**spec: Any) -> Owner:
    return owner({"apiVersion": "example.com/v2", "kind": "Simulation", "metadata": {"name": "s"}}, **spec)


def refused(**settings: Any) -> str:
    """What loading says of a kind; None leaves a setting out."""
    kind = {name: value for name, value in (NAMES | settings).items() if value is not None}
    with pytest.raises(InputError) as raised:
        read(yaml.safe_dump({"grouping": {"kinds": [kind]}}).encode(), "muster.yaml")
    return str(raised.value)


# one role ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"size": 8, "least": 3}, "3"),
        ({"size": 8}, "8"),
        ({"size": 8, "least": 0}, "8"),
        ({"size": 2, "least": 3}, "2"),
        ({"least": 3}, "3"),
        ({}, "1"),
        ({"size": "8", "least": "5"}, "5"),
        ({"size": [], "least": True}, "1"),
        ({"size": -4}, "1"),
    ],
)
def test_a_kind_without_roles_needs_its_minimum_else_its_replicas(spec: dict[str, Any], expected: str) -> None:
    ours = rule(replicas=".spec.size", minimum=".spec.least")
    assert tree(grouped(pod(), simulation(**spec), kinds=[ours])) == expected


def test_a_kind_without_paths_is_grouped_by_the_default_rule() -> None:
    group = grouped(pod(), simulation(), kinds=[rule(priorityClass="build")])
    assert (group.metadata.name, tree(group)) == ("pg-s-uid-s", "1")
    assert group.spec.priority_class_name == "build"


def test_paths_may_read_annotations() -> None:
    ours = rule(minimum=".metadata.annotations['kai.scheduler/least']")
    assert tree(grouped(pod(), annotated(simulation(), least="4"), kinds=[ours])) == "4"


def test_a_kind_that_muster_knows_may_be_described_otherwise() -> None:
    jobs = custom_rule(CustomKind("batch/v1", "Job", "jobs", minimum=".spec.parallelism"))
    job = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 6}}")
    assert tree(grouped(pod(), job, kinds=[jobs])) == "6"


def test_a_kind_of_your_own_may_be_a_wrapper() -> None:
    job = owner("{apiVersion: batch/v1, kind: Job, metadata: {name: j}}")
    assignment = assigned(pod(), job, labelled(simulation(), queue="blue"), kinds=[rule(wrapper=True)])
    assert assignment.rule == "Job"
    assert assignment.request.owner.metadata.labels == {"kai.scheduler/queue": "blue"}


# roles ---------------------------------------------------------------------------------------------------------------

ROLES = {"path": ".spec.roles", "minimum": ".least", "replicas": ".count"}
BY_ROLE = rule(roles=ROLES, roleLabel="example.com/role")


def in_role(role: str) -> Any:
    return pod(f"s-{role}", {"example.com/role": role})


@pytest.mark.parametrize(
    "roles",
    [
        [
            {"name": "solver", "count": 8, "least": 6},
            {"name": "viewer", "count": 1, "least": 0},
            {"name": "none", "count": 0},
        ],
        {"solver": {"count": 8, "least": 6}, "viewer": {"count": 1, "least": 0}, "none": {"count": 0}},
    ],
)
def test_roles_may_be_a_list_or_an_object_by_name(roles: Any) -> None:
    group = grouped(in_role("solver"), simulation(roles=roles), kinds=[BY_ROLE])
    assert tree(group) == picture("""
        1/2
          solver: 6
          viewer: 1
    """)


def test_a_role_without_a_minimum_is_needed_whole_and_one_without_replicas_has_one_pod() -> None:
    roles = [{"name": "a", "count": 3}, {"name": "b"}, {"name": "c", "count": 2, "least": 5}]
    assert tree(grouped(in_role("a"), simulation(roles=roles), kinds=[BY_ROLE])) == "3/3\n  a: 3\n  b: 1\n  c: 2"


def test_templates_and_paths_state_the_topology() -> None:
    template = {"metadata": {"annotations": {"kai.scheduler/topology-required-placement": "rack"}}}
    ours = rule(
        roles=ROLES,
        roleLabel="example.com/role",
        topology={"topology": ".spec.net.name", "required": ".spec.net.level"},
    )
    workload = simulation(roles=[{"name": "a", "template": template}], net={"name": "dc", "level": "zone"})
    assert tree(grouped(in_role("a"), workload, kinds=[ours])) == "1/1 @zone\n  a: 1 @rack"
    assert tree(grouped(in_role("a"), annotated(simulation(roles=[{"name": "a"}]), topology_required_placement="block"),
                        kinds=[ours])).startswith("1/1 @block")  # fmt: skip


def test_a_pod_whose_label_names_no_role_is_said() -> None:
    workload = simulation(roles=[{"name": "a"}])
    assert ungrouped(pod(), workload, kinds=[BY_ROLE]).reason == "LabelMissing"
    assert ungrouped(in_role("b"), workload, kinds=[BY_ROLE]).reason == "NoSuchGroup"


@pytest.mark.parametrize("roles", [None, 3, "a", [1, None, {"name": 7}], [{"name": []}], {"a": 3}])
def test_roles_of_wrong_types_count_as_missing(roles: Any) -> None:
    answer = assign(in_role("a"), OwnerChain((simulation(roles=roles),)), [BY_ROLE])
    assert isinstance(answer, Assignment) is (roles == {"a": 3})


# loading -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"apiVersion": None}, "grouping.kinds[0].apiVersion: is missing"),
        ({"apiVersion": "example.com"}, "grouping.kinds[0].apiVersion: `example.com` is not one"),
        ({"kind": "simulation"}, "grouping.kinds[0].kind: `simulation` is not one"),
        ({"resource": "simulations.example.com"}, "hint: the plural without its group, such as `simulations`"),
        ({"replicas": ".spec["}, "grouping.kinds[0].replicas: `.spec[` is not a JSON path"),
        ({"minimum": ".status.ready"}, "`.status.ready` is read in neither `spec` nor `metadata`"),
        ({"roles": {"path": ".spec.roles"}}, "grouping.kinds[0].roleLabel: is missing"),
        ({"roles": {"path": ".spec.roles"}, "roleLabel": "a b"}, "`a b` is not the name of a label"),
        ({"roles": {"replicas": ".n"}}, "grouping.kinds[0].roles.path: is missing"),
        ({"roleLabel": "role"}, "grouping.kinds[0].roleLabel: is not read without `roles`"),
        ({"roles": {"path": ".spec.r", "replicas": "[["}, "roleLabel": "r"}, "grouping.kinds[0].roles.replicas: `[[`"),
        ({"roles": {"path": ".spec.r"}, "roleLabel": "r", "replicas": ".spec.n"}, "is not read beside `roles`"),
        ({"roles": {"path": ".spec.r[*]"}, "roleLabel": "r"}, "roles.path: `.spec.r[*]` leads to single roles"),
        ({"roles": {"path": ".spec.r[1:]"}, "roleLabel": "r"}, "roles.path: `.spec.r[1:]` leads to single roles"),
        ({"roles": {"path": '.spec.r[?(@.a=="b")]'}, "roleLabel": "r"}, "leads to single roles"),
        ({"minimum": ".spec.volumes[0].size"}, "grouping.kinds[0].minimum: `volumes` of objects is not read"),
        ({"topology": {"required": "]"}}, "grouping.kinds[0].topology.required: `]` is not a JSON path"),
        ({"wrapper": True, "replicas": ".spec.n"}, "grouping.kinds[0].wrapper: paths of a wrapper are not read"),
        ({"replica": ".spec.n"}, "grouping.kinds[0].replica: is not a setting\n    hint: did you mean `replicas`?"),
        ({"roles": {"pth": "x"}}, "grouping.kinds[0].roles.pth: is not a setting\n    hint: did you mean `path`?"),
        ({"replicas": 3}, "grouping.kinds[0].replicas: expected text, got the number `3`"),
    ],
)
def test_what_is_wrong_with_a_kind_is_said_when_it_is_loaded(settings: dict[str, Any], says: str) -> None:
    assert says in refused(**settings)


def test_a_kind_that_is_described_twice_is_said() -> None:
    text = yaml.safe_dump({"grouping": {"kinds": [NAMES, NAMES | {"apiVersion": "example.com/v2"}]}})
    with pytest.raises(InputError, match=re.escape("grouping.kinds[1]: Simulation of `example.com` is described")):
        read(text.encode(), "muster.yaml")


def test_a_resource_that_is_none_is_said() -> None:
    with pytest.raises(InputError, match=r"grouping.owners: `Jobs` belongs to no kind that muster knows"):
        read(b"grouping: {owners: [Jobs]}", "muster.yaml")


def test_described_kinds_are_read_beside_the_listed_ones() -> None:
    text = yaml.safe_dump({"grouping": {"owners": ["jobs.batch"], "kinds": [NAMES]}})
    grouping = read(text.encode(), "muster.yaml").grouping
    assert grouping.resources == ("jobs.batch", "simulations.example.com")
    assert [(each.group, each.kind) for each in grouping.rules] == [("example.com", "Simulation")]


def test_the_worked_example_of_the_guide_is_as_the_guide_says() -> None:
    config, manifest, expected = re.findall(r"```(?:yaml|text)\n(.*?)```", GUIDE.read_text(), re.DOTALL)[-3:]
    rules = read(config.encode(), "guide").grouping.rules
    raw = yaml.safe_load(manifest)
    member = pod("x", {"example.com/role": "solver"})
    group = grouped(member, owner(raw), kinds=rules)
    assert tree(group) == picture(expected)
    assert assigned(member, owner(raw), kinds=rules).rule == "Simulation"
