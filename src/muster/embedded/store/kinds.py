"""Which kinds the embedded cluster serves, how each is named, scoped and shown, and what a CRD adds to them."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from muster.api.resources import (
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
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VALIDATING_WEBHOOKS,
    VOLUMES,
    Resource,
)
from muster.embedded.rest.table import printer_columns
from muster.embedded.rest.table import workload_columns as work
from muster.embedded.rest.table.printer_columns import Column
from muster.kube.cluster import Raw


class Kind(Struct, frozen=True, eq=False):
    """One kind that is served, as discovery tells it."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()  # of: status, scale, binding, eviction
    columns: tuple[Column, ...] = printer_columns.PLAIN
    counted: bool = False  # whether `metadata.generation` counts changes of the spec
    schema: Raw | None = None  # the OpenAPI v3 schema of a custom kind; None: a built-in kind

    @property
    def custom(self) -> bool:
        """Whether a CRD brought it."""
        return self.schema is not None

    @property
    def list_kind(self) -> str:
        """The kind of its lists."""
        return f"{self.resource.kind}List"

    @property
    def qualified(self) -> str:
        """As messages name it: `podgroups.scheduling.run.ai`, `pods`."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural


def _kind(
    resource: Resource,
    *,
    short: str = "",
    sub: str = "",
    columns: tuple[Column, ...] = printer_columns.PLAIN,
    categories: str = "",
    counted: bool = False,
) -> Kind:
    shorts, subs, cats = (tuple(text.split()) for text in (short, sub, categories))
    return Kind(resource, resource.kind.lower(), shorts, cats, subs, columns, counted)


_WORK: dict[str, Any] = {"categories": "all", "counted": True}
BUILT_IN: tuple[Kind, ...] = (
    _kind(
        PODS,
        short="po",
        sub="status binding eviction",
        columns=printer_columns.POD,
        categories="all",
        counted=True,
    ),
    _kind(NODES, short="no", sub="status", columns=printer_columns.NODE),
    _kind(NAMESPACES, short="ns", sub="status", columns=printer_columns.NAMESPACE),
    _kind(EVENTS, short="ev", columns=printer_columns.EVENT),
    _kind(SERVICES, short="svc", sub="status", columns=printer_columns.SERVICE, categories="all"),
    _kind(CONFIG_MAPS, short="cm", columns=printer_columns.CONFIG_MAP),
    _kind(SECRETS, columns=printer_columns.SECRET),
    _kind(SERVICE_ACCOUNTS, short="sa"),
    _kind(
        VOLUMES,
        short="pv",
        sub="status",
        columns=printer_columns.VOLUME,
    ),
    _kind(
        CLAIMS,
        short="pvc",
        sub="status",
        columns=printer_columns.CLAIM,
    ),
    _kind(DEPLOYMENTS, short="deploy", sub="status scale", columns=work.DEPLOYMENT, **_WORK),
    _kind(REPLICA_SETS, short="rs", sub="status scale", columns=work.REPLICA_SET, **_WORK),
    _kind(STATEFUL_SETS, short="sts", sub="status scale", columns=work.STATEFUL_SET, **_WORK),
    _kind(DAEMON_SETS, short="ds", sub="status", columns=work.DAEMON_SET, **_WORK),
    _kind(JOBS, sub="status", columns=work.JOB, **_WORK),
    _kind(CRON_JOBS, short="cj", sub="status", columns=work.CRON_JOB, **_WORK),
    _kind(
        BUDGETS,
        short="pdb",
        sub="status",
        columns=printer_columns.BUDGET,
        counted=True,
    ),
    _kind(
        PRIORITY_CLASSES,
        short="pc",
        columns=printer_columns.PRIORITY,
        counted=True,
    ),
    _kind(
        STORAGE_CLASSES,
        short="sc",
        columns=printer_columns.STORAGE_CLASS,
    ),
    _kind(LEASES, columns=printer_columns.LEASE),
    _kind(NEW_EVENTS, short="ev", columns=printer_columns.EVENT),
    _kind(
        DEFINITIONS,
        short="crd crds",
        sub="status",
        columns=printer_columns.DEFINITION,
        categories="api-extensions",
        counted=True,
    ),
    _kind(
        VALIDATING_WEBHOOKS,
        columns=printer_columns.WEBHOOKS,
        categories="api-extensions",
        counted=True,
    ),
    _kind(
        MUTATING_WEBHOOKS,
        columns=printer_columns.WEBHOOKS,
        categories="api-extensions",
        counted=True,
    ),
)


def defined(crd: Raw) -> tuple[Kind, ...]:
    """The kinds that a CustomResourceDefinition brings: one for each version that is served."""
    return tuple(_defined(crd["spec"], version) for version in crd["spec"]["versions"] if version.get("served", True))


def _defined(spec: Raw, version: Raw) -> Kind:
    names = spec["names"]
    return Kind(
        Resource(spec["group"], version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced"),
        names.get("singular") or names["kind"].lower(),
        tuple(names.get("shortNames", ())),
        tuple(names.get("categories", ())),
        tuple(name for name in ("status", "scale") if name in version.get("subresources", {})),
        printer_columns.from_paths(version.get("additionalPrinterColumns", ())),
        counted=True,
        schema=version.get("schema", {}).get("openAPIV3Schema", {}),
    )


def by_resource(kinds: Iterable[Kind]) -> dict[tuple[str, str, str], Kind]:
    """Kinds by group, version and plural."""
    return {(kind.resource.group, kind.resource.version, kind.resource.plural): kind for kind in kinds}
