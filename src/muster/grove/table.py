"""Every kind of Grove that has a controller here. A kind is one file and one row."""

from collections.abc import Mapping

from muster.api.resources import Resource
from muster.workloads.types import Controller

_CONTROLLERS: tuple[Controller, ...] = ()
GROVE: Mapping[Resource, Controller] = {controller.resource: controller for controller in _CONTROLLERS}
BRIDGE: Mapping[Resource, Controller] = {}  # beside another operator: PodGangs only
