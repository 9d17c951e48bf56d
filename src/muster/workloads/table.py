"""Every workload kind that has a controller here. A kind is one file and one row."""

from collections.abc import Mapping

from muster.api.resources import Resource
from muster.workloads.apps import deployments, replica_sets, stateful_sets
from muster.workloads.batch import cron_jobs, jobs
from muster.workloads.operators.table import OPERATORS
from muster.workloads.types import Controller

KUBERNETES: tuple[Controller, ...] = (
    deployments.CONTROLLER,
    replica_sets.CONTROLLER,
    stateful_sets.CONTROLLER,
    jobs.CONTROLLER,
    cron_jobs.CONTROLLER,
)
CONTROLLERS: Mapping[Resource, Controller] = {
    controller.resource: controller for controller in (*KUBERNETES, *OPERATORS)
}
