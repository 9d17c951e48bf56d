"""Defaults of workload kinds, as API servers set them before controllers see an object."""

from collections.abc import Callable, Mapping
from typing import Any

from muster.api.fields import mapping, text, texts
from muster.api.resources import CRON_JOBS, DEPLOYMENTS, JOBS, POD_CLIQUE_SETS, REPLICA_SETS, STATEFUL_SETS, Resource
from muster.validation.grove.defaults import with_set_defaults
from muster.workloads.types import Raw

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"  # label
JOB_NAME = "batch.kubernetes.io/job-name"  # label
LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME = "controller-uid", "job-name"  # labels, of older releases
MOST_FAILURES = 2**31 - 1


def with_defaults(raw: Raw) -> Raw:
    """An object with the defaults of its kind; other kinds stay as they are."""
    defaulter = _DEFAULTERS.get((text(raw, "apiVersion"), text(raw, "kind")))
    return raw if defaulter is None or not isinstance(raw.get("spec", {}), dict) else defaulter(raw)


def _filled(raw: Raw, path: str, **defaults: Any) -> Raw:
    """A copy with defaults for what the object at `path` leaves out."""
    first, _, rest = path.partition(".")
    inner = mapping(raw, first)
    if rest:
        return {**raw, first: _filled(inner, rest, **defaults)}
    given = {name: value for name, value in inner.items() if value is not None}
    return {**raw, first: {**inner, **defaults, **given}}


def _replica_set(raw: Raw) -> Raw:
    return _filled(raw, "spec", replicas=1)


def _deployment(raw: Raw) -> Raw:
    raw = _filled(raw, "spec", replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    raw = _filled(raw, "spec.strategy", type="RollingUpdate")
    if text(raw, "spec.strategy.type") != "RollingUpdate":
        return raw
    return _filled(raw, "spec.strategy.rollingUpdate", maxUnavailable="25%", maxSurge="25%")


def _stateful_set(raw: Raw) -> Raw:
    raw = _filled(raw, "spec", replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    raw = _filled(raw, "spec.persistentVolumeClaimRetentionPolicy", whenDeleted="Retain", whenScaled="Retain")
    raw = _filled(raw, "spec.updateStrategy", type="RollingUpdate")
    if text(raw, "spec.updateStrategy.type") != "RollingUpdate":
        return raw
    return _filled(raw, "spec.updateStrategy.rollingUpdate", partition=0)


def _job(raw: Raw) -> Raw:
    spec = mapping(raw, "spec")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        raw = _filled(raw, "spec", completions=1)
    limit = MOST_FAILURES if spec.get("backoffLimitPerIndex") is not None else 6
    raw = _filled(
        raw,
        "spec",
        parallelism=1,
        backoffLimit=limit,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
        manualSelector=False,
    )
    has_template_labels = bool(texts(raw, "spec.template.metadata.labels"))
    raw = raw if mapping(raw, "spec").get("manualSelector") else _with_selector(raw)
    if has_template_labels and not texts(raw, "metadata.labels"):  # those of the selector included, as in Kubernetes
        return {**raw, "metadata": {**raw["metadata"], "labels": texts(raw, "spec.template.metadata.labels")}}
    return raw


def _with_selector(raw: Raw) -> Raw:
    """The labels that tell the pods of this Job from all others; the uid is that of the object."""
    name, uid = text(raw, "metadata.name"), text(raw, "metadata.uid")
    if not uid:
        return raw
    labels = {LEGACY_JOB_NAME: name, JOB_NAME: name, LEGACY_CONTROLLER_UID: uid, CONTROLLER_UID: uid}
    raw = _filled(raw, "spec.template.metadata.labels", **labels)
    return _filled(raw, "spec.selector.matchLabels", **{CONTROLLER_UID: uid})


def _cron_job(raw: Raw) -> Raw:
    raw = _filled(raw, "spec", concurrencyPolicy="Allow", suspend=False)
    return _filled(raw, "spec", successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)


_BY_RESOURCE: Mapping[Resource, Callable[[Raw], Raw]] = {
    REPLICA_SETS: _replica_set,
    DEPLOYMENTS: _deployment,
    STATEFUL_SETS: _stateful_set,
    JOBS: _job,
    CRON_JOBS: _cron_job,
    POD_CLIQUE_SETS: with_set_defaults,
}
_DEFAULTERS = {(resource.api_version, resource.kind): defaulter for resource, defaulter in _BY_RESOURCE.items()}
