"""The admission chain: namespace lifecycle, pruning and defaulting by schema, and validation of every kind."""

from collections.abc import Callable, Iterator, Sequence

from muster.api.objects import GROVE_KINDS
from muster.api.resources import DEFINITIONS, NAMESPACES, POD_GROUPS, PODS, QUEUES, TOPOLOGIES
from muster.embedded.admission import metadata, pods, structural_schemas, validation
from muster.embedded.admission.structural_schemas import (
    MOST_PROBLEMS,
    apply_schema_defaults,
    prune,
    schema_problems,
    schema_violations,
)
from muster.embedded.api_errors import Cause, bad_request, forbidden, invalid, not_found
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw
from muster.validation.check import check, errors
from muster.validation.context import ValidationContext

UnknownFieldHandler = Callable[[Sequence[str]], None]  # gets the paths of fields that no schema declares
_VALIDATED_BY_RULES = frozenset((POD_GROUPS, QUEUES, TOPOLOGIES, *GROVE_KINDS))
_NO_UNCONDITIONAL_UPDATE = frozenset(("poddisruptionbudgets", "leases", "customresourcedefinitions"))


def require_active_namespace(stored: Raw | None, namespace: str, kind: Kind, name: str) -> None:
    """Reject a new object in a namespace that is missing (404) or terminating (403)."""
    if stored is None:
        raise not_found(NAMESPACES, namespace)
    if stored["metadata"].get("deletionTimestamp"):
        reason = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
        raise forbidden(kind.resource, name, reason, [cause])


def drop_unknown_fields(_: Sequence[str]) -> None:
    """Drop unknown fields silently (fieldValidation=Ignore)."""


def reject_unknown_fields(paths: Sequence[str]) -> None:
    """ApiError 400 for unknown fields (fieldValidation=Strict)."""
    problems = ", ".join(f'unknown field "{path}"' for path in paths)
    raise bad_request(f"strict decoding error: {problems}")


def prune_and_default(raw: Raw, kind: Kind, on_unknown_fields: UnknownFieldHandler) -> Raw:
    """An object without unknown fields and with the defaults of its schema; the handler gets the unknown fields."""
    unknown = unknown_fields(raw, kind)
    if unknown:
        on_unknown_fields(unknown[:MOST_PROBLEMS])
    raw = {**raw, "metadata": {name: value for name, value in raw["metadata"].items() if name in metadata.FIELDS}}
    return raw if kind.schema is None else apply_schema_defaults(prune(raw, kind.schema), kind.schema)


def unknown_fields(raw: Raw, kind: Kind) -> list[str]:
    """The paths of unknown fields; built-in kinds have a complete schema for the metadata only."""
    in_metadata = [f"metadata.{name}" for name in raw["metadata"] if name not in metadata.FIELDS]
    in_schema = structural_schemas.unknown_fields(raw, kind.schema) if kind.schema is not None else ()
    return sorted([*in_metadata, *in_schema])


def validate(
    raw: Raw, old: Raw | None, kind: Kind, *, checks_spec: bool = True, context: ValidationContext | None = None
) -> None:
    """ApiError 422 with every problem of an object, as a new one (`old` is None) or as an update.

    `checks_spec`: also by the rules of its kind; an update of the status cannot break them. `context`: objects around
    it that are a reason to refuse it.
    """
    causes = [*metadata.problems(raw, kind), *_kind_problems(raw, old, kind, checks_spec, context)]
    if old is not None:
        causes += _added_finalizers(raw, old)
    if causes:
        raise invalid(kind.resource, raw["metadata"].get("name") or "", causes[:MOST_PROBLEMS])


def _kind_problems(
    raw: Raw, old: Raw | None, kind: Kind, checks_spec: bool, context: ValidationContext | None
) -> Iterator[Cause]:
    if kind.schema is not None:
        violations = list(schema_violations(raw, kind.schema))
        yield from violations
        if checks_spec and kind.resource in _VALIDATED_BY_RULES:
            fields = {cause.field for cause in violations}
            yield from (cause for cause in _rule_problems(raw, old, context) if cause.field not in fields)
    elif kind.resource == PODS and checks_spec:
        yield from pods.problems(raw) if old is None else pods.forbidden_changes(old, raw)
    elif kind.resource == DEFINITIONS:
        yield from _crd_problems(raw)
    elif checks_spec:
        yield from validation.problems(raw, old, kind.resource)


def _rule_problems(raw: Raw, old: Raw | None, context: ValidationContext | None) -> Iterator[Cause]:
    """Rules V and R: every error is a cause; warnings pass."""
    for problem in errors(check(raw, old, context)):
        hint = f" (hint: {problem.hint})" if problem.hint else ""
        yield Cause(problem.at, f"Invalid value: {problem.says}{hint}")


def _crd_problems(raw: Raw) -> Iterator[Cause]:
    """What is wrong with a CRD whose fields have the right types."""
    spec = raw.get("spec", {})
    names = spec.get("names", {})
    for path, value in (
        ("spec.group", spec.get("group")),
        ("spec.scope", spec.get("scope")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
        ("spec.versions", spec.get("versions")),
    ):
        if not value:
            yield Cause(path, "Required value", "FieldValueRequired")
    if raw["metadata"].get("name") != f"{names.get('plural')}.{spec.get('group')}":
        yield Cause("metadata.name", 'Invalid value: must be spec.names.plural+"."+spec.group')
    if sum(bool(version.get("storage")) for version in spec.get("versions", ())) != 1:
        yield Cause("spec.versions", "Invalid value: must have exactly one version marked as storage version")
    for i, version in enumerate(spec.get("versions", ())):
        yield from _crd_version_problems(version, f"spec.versions[{i}]")


def _crd_version_problems(version: Raw, path: str) -> Iterator[Cause]:
    if not version.get("name"):
        yield Cause(f"{path}.name", "Required value", "FieldValueRequired")
    schema, schema_path = version.get("schema", {}).get("openAPIV3Schema"), f"{path}.schema.openAPIV3Schema"
    if schema is None:
        yield Cause(schema_path, "Required value", "FieldValueRequired")
    else:
        yield from schema_problems(schema, schema_path)
        if not schema.get("type"):
            yield Cause(f"{schema_path}.type", "Required value: must not be empty at the root", "FieldValueRequired")
    for i, column in enumerate(version.get("additionalPrinterColumns", ())):
        for field in ("name", "jsonPath"):
            if not column.get(field):
                yield Cause(f"{path}.additionalPrinterColumns[{i}].{field}", "Required value", "FieldValueRequired")


def _added_finalizers(raw: Raw, old: Raw) -> Iterator[Cause]:
    """A terminating object gets no new finalizers."""
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [finalizer for finalizer in raw["metadata"].get("finalizers") or () if finalizer not in before]
        if added:
            reason = "Forbidden: no new finalizers can be added if the object is being deleted"
            yield Cause("metadata.finalizers", f"{reason}, found new finalizers {added}", "FieldValueForbidden")


def requires_resource_version(kind: Kind) -> bool:
    """Whether an update must name the resourceVersion that it replaces."""
    return kind.is_custom or kind.resource.plural in _NO_UNCONDITIONAL_UPDATE
