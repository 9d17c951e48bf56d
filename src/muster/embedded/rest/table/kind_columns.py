"""The printer columns of every kind."""

from functools import lru_cache

from muster.api.resources import (
    AUTOSCALERS,
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NEW_EVENTS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VALIDATING_WEBHOOKS,
    VOLUMES,
    Resource,
)
from muster.embedded.rest.table import printer_columns, workload_columns
from muster.embedded.rest.table.printer_columns import Column
from muster.embedded.store.kinds import Kind

_BUILT_IN: dict[Resource, tuple[Column, ...]] = {  # other kinds have Name and Age
    PODS: printer_columns.POD,
    NODES: printer_columns.NODE,
    NAMESPACES: printer_columns.NAMESPACE,
    EVENTS: printer_columns.EVENT,
    SERVICES: printer_columns.SERVICE,
    CONFIG_MAPS: printer_columns.CONFIG_MAP,
    SECRETS: printer_columns.SECRET,
    VOLUMES: printer_columns.VOLUME,
    CLAIMS: printer_columns.CLAIM,
    DEPLOYMENTS: workload_columns.DEPLOYMENT,
    REPLICA_SETS: workload_columns.REPLICA_SET,
    STATEFUL_SETS: workload_columns.STATEFUL_SET,
    DAEMON_SETS: workload_columns.DAEMON_SET,
    JOBS: workload_columns.JOB,
    CRON_JOBS: workload_columns.CRON_JOB,
    AUTOSCALERS: printer_columns.AUTOSCALER,
    BUDGETS: printer_columns.BUDGET,
    PRIORITY_CLASSES: printer_columns.PRIORITY,
    STORAGE_CLASSES: printer_columns.STORAGE_CLASS,
    LEASES: printer_columns.LEASE,
    NEW_EVENTS: printer_columns.EVENT,
    DEFINITIONS: printer_columns.DEFINITION,
    VALIDATING_WEBHOOKS: printer_columns.WEBHOOKS,
    MUTATING_WEBHOOKS: printer_columns.WEBHOOKS,
}


@lru_cache(maxsize=256)
def columns_of(kind: Kind) -> tuple[Column, ...]:
    """The columns of a kind: of a custom kind, those of its CRD."""
    if kind.is_custom:
        return printer_columns.from_paths(kind.printer_columns)
    return _BUILT_IN.get(kind.resource, printer_columns.PLAIN)
