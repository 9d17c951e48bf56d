"""Which kinds the embedded cluster serves, how each is named, scoped and shown, and what a CRD adds to them."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from muster.embedded.rest.table import printer_columns
from muster.embedded.rest.table import workload_columns as work
from muster.embedded.rest.table.printer_columns import Column
from muster.kube.cluster import Raw, Resource


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
    api_version: str,
    plural: str,
    kind: str,
    *,
    short: str = "",
    sub: str = "",
    columns: tuple[Column, ...] = printer_columns.PLAIN,
    namespaced: bool = True,
    categories: str = "",
    counted: bool = False,
) -> Kind:
    group, _, version = api_version.rpartition("/")
    resource = Resource(group, version, plural, kind, namespaced)
    shorts, subs, cats = (tuple(text.split()) for text in (short, sub, categories))
    return Kind(resource, kind.lower(), shorts, cats, subs, columns, counted)


_WORK: dict[str, Any] = {"categories": "all", "counted": True}
BUILT_IN: tuple[Kind, ...] = (
    _kind(
        "v1",
        "pods",
        "Pod",
        short="po",
        sub="status binding eviction",
        columns=printer_columns.POD,
        categories="all",
        counted=True,
    ),
    _kind("v1", "nodes", "Node", short="no", sub="status", columns=printer_columns.NODE, namespaced=False),
    _kind(
        "v1", "namespaces", "Namespace", short="ns", sub="status", columns=printer_columns.NAMESPACE, namespaced=False
    ),
    _kind("v1", "events", "Event", short="ev", columns=printer_columns.EVENT),
    _kind("v1", "services", "Service", short="svc", sub="status", columns=printer_columns.SERVICE, categories="all"),
    _kind("v1", "configmaps", "ConfigMap", short="cm", columns=printer_columns.CONFIG_MAP),
    _kind("v1", "secrets", "Secret", columns=printer_columns.SECRET),
    _kind("v1", "serviceaccounts", "ServiceAccount", short="sa"),
    _kind(
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        short="pv",
        sub="status",
        columns=printer_columns.VOLUME,
        namespaced=False,
    ),
    _kind(
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short="pvc",
        sub="status",
        columns=printer_columns.CLAIM,
    ),
    _kind("apps/v1", "deployments", "Deployment", short="deploy", sub="status scale", columns=work.DEPLOYMENT, **_WORK),
    _kind("apps/v1", "replicasets", "ReplicaSet", short="rs", sub="status scale", columns=work.REPLICA_SET, **_WORK),
    _kind(
        "apps/v1", "statefulsets", "StatefulSet", short="sts", sub="status scale", columns=work.STATEFUL_SET, **_WORK
    ),
    _kind("apps/v1", "daemonsets", "DaemonSet", short="ds", sub="status", columns=work.DAEMON_SET, **_WORK),
    _kind("batch/v1", "jobs", "Job", sub="status", columns=work.JOB, **_WORK),
    _kind("batch/v1", "cronjobs", "CronJob", short="cj", sub="status", columns=work.CRON_JOB, **_WORK),
    _kind(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short="pdb",
        sub="status",
        columns=printer_columns.BUDGET,
        counted=True,
    ),
    _kind(
        "scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        short="pc",
        columns=printer_columns.PRIORITY,
        namespaced=False,
        counted=True,
    ),
    _kind(
        "storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        short="sc",
        columns=printer_columns.STORAGE_CLASS,
        namespaced=False,
    ),
    _kind("coordination.k8s.io/v1", "leases", "Lease", columns=printer_columns.LEASE),
    _kind("events.k8s.io/v1", "events", "Event", short="ev", columns=printer_columns.EVENT),
    _kind(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        short="crd crds",
        sub="status",
        columns=printer_columns.DEFINITION,
        namespaced=False,
        categories="api-extensions",
        counted=True,
    ),
    _kind(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        columns=printer_columns.WEBHOOKS,
        namespaced=False,
        categories="api-extensions",
        counted=True,
    ),
    _kind(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        columns=printer_columns.WEBHOOKS,
        namespaced=False,
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


_BUILT_IN = {(kind.resource.group, kind.resource.plural): kind.resource for kind in BUILT_IN}
PODS = _BUILT_IN["", "pods"]
NODES = _BUILT_IN["", "nodes"]
NAMESPACES = _BUILT_IN["", "namespaces"]
EVENTS = _BUILT_IN["", "events"]
NEW_EVENTS = _BUILT_IN["events.k8s.io", "events"]
CLAIMS = _BUILT_IN["", "persistentvolumeclaims"]
VOLUMES = _BUILT_IN["", "persistentvolumes"]
CONFIG_MAPS = _BUILT_IN["", "configmaps"]
SECRETS = _BUILT_IN["", "secrets"]
DEPLOYMENTS = _BUILT_IN["apps", "deployments"]
REPLICA_SETS = _BUILT_IN["apps", "replicasets"]
STATEFUL_SETS = _BUILT_IN["apps", "statefulsets"]
DAEMON_SETS = _BUILT_IN["apps", "daemonsets"]
BUDGETS = _BUILT_IN["policy", "poddisruptionbudgets"]
PRIORITY_CLASSES = _BUILT_IN["scheduling.k8s.io", "priorityclasses"]
STORAGE_CLASSES = _BUILT_IN["storage.k8s.io", "storageclasses"]
LEASES = _BUILT_IN["coordination.k8s.io", "leases"]
DEFINITIONS = _BUILT_IN["apiextensions.k8s.io", "customresourcedefinitions"]
POD_GROUPS = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
QUEUES = Resource("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False)
TOPOLOGIES = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", namespaced=False)
