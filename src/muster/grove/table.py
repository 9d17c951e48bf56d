"""Every kind of Grove that has a controller here. A kind is one file and one row."""

from collections.abc import Collection, Mapping

from muster.api.resources import POD_GANGS, Resource
from muster.grove import topology_bindings
from muster.grove.cliques import clique_controller
from muster.grove.gangs import gang_controller
from muster.grove.scaling_groups import group_controller
from muster.grove.sets import set_controller
from muster.workloads.types import Controller

_CONTROLLERS: tuple[Controller, ...] = (
    set_controller.CONTROLLER,
    group_controller.CONTROLLER,
    clique_controller.CONTROLLER,
    gang_controller.CONTROLLER,
    topology_bindings.CONTROLLER,
)
GROVE: Mapping[Resource, Controller] = {controller.resource: controller for controller in _CONTROLLERS}


def bridge(schedulers: Collection[str]) -> Mapping[Resource, Controller]:
    """Beside another operator: PodGangs only, for pods of these schedulers."""
    return {POD_GANGS: gang_controller.bridge_controller(schedulers)}
