"""Pods of a user's own kinds, from the paths of the configuration."""

import pytest

import muster
from muster.config.loading import read
from muster.errors import InputError
from muster.grouping.manifests.custom_pods import custom_controller
from muster.grouping.manifests.group_objects import group_objects
from muster.grouping.manifests.settings import GroupingSettings
from muster.grouping.manifests.types import GroupedObjects
from tests.unit.grouping.manifests.manifest_examples import Raw, manifest, template

ROLES = """
grouping:
  kinds:
    - {apiVersion: example.com/v1, kind: Simulation, resource: simulations, roleLabel: example.com/role,
       roles: {path: .spec.roles, minimum: .least}}
"""
PLAIN = """
grouping:
  kinds:
    - {apiVersion: example.com/v1, kind: Simulation, resource: simulations, replicas: .spec.size}
"""


def grouped(config: str, *raws: Raw) -> GroupedObjects:
    settings = read(config.encode(), "config").grouping
    controllers = tuple(map(custom_controller, settings.kinds))
    own = GroupingSettings(rules=settings.rules, own_controllers=controllers, listed=frozenset(settings.resources))
    return group_objects(muster.objects(raws), own)


def simulation(**spec: object) -> Raw:
    return manifest("Simulation", "example.com/v1", "storm", spec)


def test_roles_get_their_pods_and_leaves() -> None:
    roles = [
        {"name": "solver", "replicas": 3, "least": 2, "template": template()},
        {"name": "viewer", "template": template()},
    ]
    (gang,) = grouped(ROLES, simulation(roles=roles)).gangs
    assert gang.key == "default/pg-storm-simulation"
    assert dict(gang.pods) == {"solver": 3, "viewer": 1}
    assert {group.name: group.min_member for group in gang.pod_group.spec.sub_groups} == {"solver": 2, "viewer": 1}


def test_a_kind_without_roles_gets_its_replicas() -> None:
    (gang,) = grouped(PLAIN, simulation(size=4, template=template())).gangs
    assert (gang.pod_group.spec.min_member, dict(gang.pods)) == (4, {"": 4})


def test_a_thousand_pods_and_more_are_made() -> None:
    (gang,) = grouped(PLAIN, simulation(size=2_500, template=template())).gangs
    assert dict(gang.pods) == {"": 2_500}


@pytest.mark.parametrize("spec", [{}, {"size": 10**9, "template": template()}, {"template": "text"}])
def test_what_cannot_be_used_is_refused(spec: Raw) -> None:
    with pytest.raises(InputError, match=r"(?i)simulation"):
        grouped(PLAIN, simulation(**spec))
