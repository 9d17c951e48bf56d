"""Every workload kind that has a controller here. A kind is one file and one row."""

from collections.abc import Mapping

from muster.api.resources import Resource
from muster.workloads import jobs, replica_sets
from muster.workloads.operators.table import OPERATORS
from muster.workloads.types import Controller

KUBERNETES: tuple[Controller, ...] = (
    replica_sets.CONTROLLER,
    jobs.CONTROLLER,
)
CONTROLLERS: Mapping[Resource, Controller] = {
    controller.resource: controller for controller in (*KUBERNETES, *OPERATORS)
}
