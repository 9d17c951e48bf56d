"""Minimal CRDs of the operators' kinds: real names, short names, subresources and columns; any spec is accepted.

Rule: where an operator's own CRD is installed, it stays; these only let an API server keep the objects.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from muster.api.resources import (
    DEFINITIONS,
    JAX_JOBS,
    JOB_SETS,
    LEADER_WORKER_SETS,
    MPI_JOBS,
    PADDLE_JOBS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    TF_JOBS,
    XGBOOST_JOBS,
    Resource,
)
from muster.workloads.types import Raw


class OperatorKind(Struct, frozen=True):
    """A kind as its project's CRD names it."""

    resource: Resource
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    scale: tuple[str, str, str] | None = None  # paths of replicas in spec and status, and of the selector
    columns: tuple[tuple[str, str, str], ...] = ()  # name, type, path; Age comes last


def _worker_scale(specs: str) -> tuple[str, str, str]:
    workers = ".status.replicaStatuses.Worker"
    return f".spec.{specs}.Worker.replicas", f"{workers}.active", f"{workers}.selector"


_ANY: Raw = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STATE = (("State", "string", ".status.conditions[-1:].type"),)

KINDS: tuple[OperatorKind, ...] = (
    OperatorKind(
        LEADER_WORKER_SETS,
        ("lws",),
        scale=(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
        columns=(
            ("Ready", "integer", ".status.readyReplicas"),
            ("Desired", "integer", ".spec.replicas"),
            ("Up-to-date", "integer", ".status.updatedReplicas"),
        ),
    ),
    OperatorKind(
        JOB_SETS,
        columns=(
            ("TerminalState", "string", ".status.terminalState"),
            ("Restarts", "string", ".status.restarts"),
            ("Completed", "string", '.status.conditions[?(@.type=="Completed")].status'),
            ("Suspended", "string", ".spec.suspend"),
        ),
    ),
    OperatorKind(PYTORCH_JOBS, scale=_worker_scale("pytorchReplicaSpecs"), columns=_STATE),
    OperatorKind(TF_JOBS, columns=_STATE),
    OperatorKind(XGBOOST_JOBS, columns=_STATE),
    OperatorKind(JAX_JOBS, scale=_worker_scale("jaxReplicaSpecs"), columns=_STATE),
    OperatorKind(PADDLE_JOBS, scale=_worker_scale("paddleReplicaSpecs"), columns=_STATE),
    OperatorKind(MPI_JOBS, columns=_STATE),
    OperatorKind(
        RAY_CLUSTERS,
        categories=("all",),
        columns=(
            ("desired workers", "integer", ".status.desiredWorkerReplicas"),
            ("available workers", "integer", ".status.availableWorkerReplicas"),
            ("status", "string", ".status.state"),
        ),
    ),
    OperatorKind(
        RAY_JOBS,
        categories=("all",),
        columns=(
            ("job status", "string", ".status.jobStatus"),
            ("deployment status", "string", ".status.jobDeploymentStatus"),
            ("ray cluster name", "string", ".status.rayClusterName"),
            ("start time", "string", ".status.startTime"),
            ("end time", "string", ".status.endTime"),
        ),
    ),
    OperatorKind(
        RAY_SERVICES,
        categories=("all",),
        columns=(("service status", "string", ".status.serviceStatus"),),
    ),
)


def operator_crds(kinds: Sequence[OperatorKind] = KINDS) -> list[Raw]:
    """The CRD of every kind."""
    return [_definition(kind) for kind in kinds]


def _definition(kind: OperatorKind) -> Raw:
    resource = kind.resource
    names: dict[str, Any] = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return {
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.kind,
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {"group": resource.group, "names": names, "scope": "Namespaced", "versions": [_version(kind)]},
    }


def _version(kind: OperatorKind) -> Raw:
    properties: Raw = {name: {"type": "string"} for name in ("apiVersion", "kind")}
    properties |= {"metadata": {"type": "object"}, "spec": _ANY, "status": _ANY}
    columns = [*kind.columns, ("Age", "date", ".metadata.creationTimestamp")]
    return {
        "name": kind.resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}, **_scale(kind)},
        "additionalPrinterColumns": [{"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns],
    }


def _scale(kind: OperatorKind) -> Raw:
    if kind.scale is None:
        return {}
    spec, status, selector = kind.scale
    return {"scale": {"specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": selector}}
