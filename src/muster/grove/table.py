"""Every kind of Grove that has a controller here. A kind is one file and one row."""

from collections.abc import Mapping

from muster.api.resources import Resource
from muster.grove import topology_bindings
from muster.grove.scaling_groups import group_controller
from muster.grove.sets import set_controller
from muster.workloads.types import Controller

_CONTROLLERS: tuple[Controller, ...] = (
    set_controller.CONTROLLER,
    group_controller.CONTROLLER,
    topology_bindings.CONTROLLER,
)
GROVE: Mapping[Resource, Controller] = {controller.resource: controller for controller in _CONTROLLERS}
BRIDGE: Mapping[Resource, Controller] = {}  # beside another operator: PodGangs only
