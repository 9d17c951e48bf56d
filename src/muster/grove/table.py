"""Every kind of Grove that has a controller here. A kind is one file and one row."""

from collections.abc import Collection, Mapping
from datetime import datetime

from msgspec.structs import replace

from muster.api import names
from muster.api.fields import text, texts
from muster.api.resources import POD_CLIQUE_SETS, POD_GANGS, Resource
from muster.grove import topology_bindings
from muster.grove.cliques import clique_controller
from muster.grove.cliques.pod_specs import CliqueSettings
from muster.grove.gangs import gang_controller
from muster.grove.scaling_groups import group_controller
from muster.grove.sets import set_controller
from muster.workloads.pod_templates import is_terminating
from muster.workloads.types import Children, Controller, Raw, Reconciliation


def operator(settings: CliqueSettings, pool_label: str = names.NODE_POOL) -> Mapping[Resource, Controller]:
    """Everything that becomes of a PodCliqueSet."""
    controllers = (
        set_controller.CONTROLLER,
        _of_known_sets(group_controller.CONTROLLER),
        _of_known_sets(clique_controller.build_controller(settings)),
        _of_known_sets(gang_controller.build_controller(pool_label)),
        topology_bindings.build_controller(settings.scheduler_name),
    )
    return {controller.resource: controller for controller in controllers}


def _of_known_sets(controller: Controller) -> Controller:
    """The controller for parts of sets that are here and stay: the set itself removes them when it goes."""

    def reconcile(raw: Raw, children: Children, now: datetime) -> Reconciliation:
        name = texts(raw, "metadata.labels").get(names.PART_OF)
        if name:
            pcs = children.get(POD_CLIQUE_SETS, text(raw, "metadata.namespace"), name)
            if pcs is None or is_terminating(pcs):  # another operator's, or about to go
                return Reconciliation()
        return controller.reconcile(raw, children, now)

    return replace(controller, reconcile=reconcile)


GROVE: Mapping[Resource, Controller] = operator(CliqueSettings())


def bridge(schedulers: Collection[str], pool_label: str = names.NODE_POOL) -> Mapping[Resource, Controller]:
    """Beside another operator: PodGangs only, for pods of these schedulers."""
    return {POD_GANGS: gang_controller.bridge_controller(schedulers, pool_label)}
