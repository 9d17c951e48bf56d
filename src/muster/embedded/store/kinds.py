"""The kinds that the embedded cluster serves, how each is named and scoped, and the kinds that a CRD adds."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from muster.api.resources import (
    AUTOSCALERS,
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
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
from muster.kube.cluster import Raw


class ScalePaths(Struct, frozen=True):
    """Where a kind keeps what its scale subresource shows; paths of fields without the leading dot."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = ""  # of a text; empty: `spec.selector` is a label selector


class Kind(Struct, frozen=True, eq=False):
    """One served kind, as discovery lists it."""

    resource: Resource
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()  # of: status, scale, binding, eviction
    has_generation: bool = False  # whether `metadata.generation` counts changes of the spec
    schema: Raw | None = None  # the OpenAPI v3 schema of a custom kind; None: a built-in kind
    printer_columns: tuple[Raw, ...] = ()  # additionalPrinterColumns of a custom kind
    scale_paths: ScalePaths = ScalePaths()

    @property
    def is_custom(self) -> bool:
        """Whether a CRD defines it."""
        return self.schema is not None

    @property
    def list_kind(self) -> str:
        """The kind of its lists: `PodList`."""
        return f"{self.resource.kind}List"


def _kind(
    resource: Resource, *, short: str = "", sub: str = "", categories: str = "", has_generation: bool = False
) -> Kind:
    short_names, subresources, category_names = (tuple(text.split()) for text in (short, sub, categories))
    return Kind(resource, resource.kind.lower(), short_names, category_names, subresources, has_generation)


_WORKLOAD: dict[str, Any] = {"categories": "all", "has_generation": True}
_EXTENSION: dict[str, Any] = {"categories": "api-extensions", "has_generation": True}
BUILT_IN: tuple[Kind, ...] = (
    _kind(PODS, short="po", sub="status binding eviction", **_WORKLOAD),
    _kind(NODES, short="no", sub="status"),
    _kind(NAMESPACES, short="ns", sub="status"),
    _kind(EVENTS, short="ev"),
    _kind(SERVICES, short="svc", sub="status", categories="all"),
    _kind(CONFIG_MAPS, short="cm"),
    _kind(SECRETS),
    _kind(SERVICE_ACCOUNTS, short="sa"),
    _kind(VOLUMES, short="pv", sub="status"),
    _kind(CLAIMS, short="pvc", sub="status"),
    _kind(DEPLOYMENTS, short="deploy", sub="status scale", **_WORKLOAD),
    _kind(REPLICA_SETS, short="rs", sub="status scale", **_WORKLOAD),
    _kind(STATEFUL_SETS, short="sts", sub="status scale", **_WORKLOAD),
    _kind(CONTROLLER_REVISIONS),
    _kind(DAEMON_SETS, short="ds", sub="status", **_WORKLOAD),
    _kind(JOBS, sub="status", **_WORKLOAD),
    _kind(CRON_JOBS, short="cj", sub="status", **_WORKLOAD),
    _kind(AUTOSCALERS, short="hpa", sub="status", categories="all"),
    _kind(BUDGETS, short="pdb", sub="status", has_generation=True),
    _kind(PRIORITY_CLASSES, short="pc", has_generation=True),
    _kind(STORAGE_CLASSES, short="sc"),
    _kind(LEASES),
    _kind(NEW_EVENTS, short="ev"),
    _kind(DEFINITIONS, short="crd crds", sub="status", **_EXTENSION),
    _kind(VALIDATING_WEBHOOKS, **_EXTENSION),
    _kind(MUTATING_WEBHOOKS, **_EXTENSION),
)


def kinds_of_crd(crd: Raw) -> tuple[Kind, ...]:
    """The kinds that a CustomResourceDefinition adds: one for each served version."""
    return tuple(
        _kind_of_version(crd["spec"], version) for version in crd["spec"]["versions"] if version.get("served", True)
    )


def _kind_of_version(spec: Raw, version: Raw) -> Kind:
    names = spec["names"]
    return Kind(
        Resource(spec["group"], version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced"),
        names.get("singular") or names["kind"].lower(),
        tuple(names.get("shortNames", ())),
        tuple(names.get("categories", ())),
        tuple(name for name in ("status", "scale") if name in version.get("subresources", {})),
        has_generation=True,
        schema=version.get("schema", {}).get("openAPIV3Schema", {}),
        printer_columns=tuple(version.get("additionalPrinterColumns", ())),
        scale_paths=_scale_paths(version.get("subresources", {}).get("scale") or {}),
    )


def _scale_paths(scale: Raw) -> ScalePaths:
    names = {"replicas": "specReplicasPath", "status_replicas": "statusReplicasPath", "selector": "labelSelectorPath"}
    return ScalePaths(**{field: scale[name].removeprefix(".") for field, name in names.items() if scale.get(name)})


def by_resource(kinds: Iterable[Kind]) -> dict[tuple[str, str, str], Kind]:
    """Kinds by group, version and plural."""
    return {(kind.resource.group, kind.resource.version, kind.resource.plural): kind for kind in kinds}
