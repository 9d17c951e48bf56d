"""Manifests of workloads that Kubernetes would refuse, or that are too large: an InputError with file and way out.

Controllers read values of wrong types as missing. In a manifest that would hide a mistake: `replicas: three` is not 1.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from muster.api.codec import title
from muster.api.fields import at, text
from muster.api.objects import OtherObject
from muster.errors import InputError
from muster.workloads.expansion import MOST_PODS

COUNTS = frozenset(
    ("replicas", "parallelism", "completions", "size", "numOfHosts", "minReplicas", "subGroupSize", "minAvailable")
)
UNREAD = frozenset(("containers", "initContainers", "volumes", "volumeClaimTemplates", "metadata", "affinity"))
MOST_LEVELS = 20
Place = tuple[str, str, str, str]  # API group, kind, namespace and name


def check_manifests(manifests: Sequence[OtherObject], expanded: Collection[tuple[str, str]]) -> None:
    """InputError: the first manifest that cannot be used. `expanded`: kinds whose pods are made here."""
    seen: dict[Place, str] = {}
    by_uid: dict[str, OtherObject] = {}
    for manifest in manifests:
        _check_form(manifest)
        _check_uid(manifest, by_uid)
        if manifest.kind in expanded:
            _check_counts(manifest)
        place = _place(manifest)
        if place[-1] and place in seen:
            raise InputError(
                f"{manifest.where}: {title(manifest.raw)} is given twice",
                hint=f"the other one is in {seen[place]}; keep one",
            )
        seen[place] = manifest.where


def _place(manifest: OtherObject) -> Place:
    api_version, kind = manifest.kind
    meta = manifest.raw.get("metadata")
    return api_version.rpartition("/")[0], kind, text(meta, "namespace"), text(meta, "name")


def _check_form(manifest: OtherObject) -> None:
    for field in ("metadata", "spec"):
        if not isinstance(manifest.raw.get(field) or {}, dict):
            raise _refused(manifest, f"`{field}` is not an object")
    if not _is_text(manifest, "name") and not _is_text(manifest, "generateName"):
        raise _refused(manifest, "it has no name", "add `metadata.name`")


def _check_uid(manifest: OtherObject, by_uid: dict[str, OtherObject]) -> None:
    """Pods know their owner by its uid: those of a manifest that was copied with its uid would belong to both."""
    uid = at(manifest.raw, "metadata.uid")
    other = by_uid.setdefault(uid, manifest) if isinstance(uid, str) and uid else manifest
    if other is not manifest and _place(other) != _place(manifest):
        raise _refused(
            manifest,
            f"it has the uid of {title(other.raw)} in {other.where}",
            "remove `metadata.uid` from the copy: the API server gives every object one of its own",
        )


def _check_counts(manifest: OtherObject) -> None:
    for path, count in _counts(manifest.raw.get("spec"), "spec", MOST_LEVELS):
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise _refused(manifest, f"{path} is not a whole number from 0 up: `{str(count)[:40]}`")
        if count > MOST_PODS and not path.endswith(".completions"):  # those come one after the other
            much = count if count < 10**20 else "far too many"
            raise _refused(manifest, f"{path} is {much}: more than {MOST_PODS} pods", "lower it, or leave it out")


def _is_text(manifest: OtherObject, field: str) -> bool:
    value = at(manifest.raw, f"metadata.{field}")
    if value is not None and not isinstance(value, str):
        raise _refused(manifest, f"metadata.{field} is not text: `{str(value)[:40]}`", "put it in quotes")
    return bool(value)


def _counts(value: Any, path: str, levels: int) -> Iterator[tuple[str, Any]]:
    """Every number of pods or replicas that a spec states."""
    if isinstance(value, list) and levels:
        for i, item in enumerate(value):
            yield from _counts(item, f"{path}[{i}]", levels - 1)
    elif isinstance(value, dict) and levels:
        for name, inner in value.items():
            if name in COUNTS and inner is not None and not isinstance(inner, dict | list):
                yield f"{path}.{name}", inner
            elif name not in UNREAD:
                yield from _counts(inner, f"{path}.{name}", levels - 1)


def no_containers(manifest: OtherObject) -> InputError:
    """The error for a manifest whose pods would have no containers."""
    return _refused(
        manifest, "a pod template is missing or has no containers", "Kubernetes refuses such pods: fill in the template"
    )


def _refused(manifest: OtherObject, what: str, hint: str = "") -> InputError:
    return InputError(f"{manifest.where}: {title(manifest.raw)} cannot be used: {what}", hint=hint)
