"""Who may come in: namespaces that stay, schemas of custom kinds, muster's rules, and a few of Kubernetes'."""

from collections.abc import Callable, Iterator, Sequence

from muster.api.resources import DEFINITIONS, NAMESPACES, POD_GROUPS, PODS, QUEUES, TOPOLOGIES
from muster.embedded.admission import metadata, pods, structural_schemas, validation
from muster.embedded.admission.structural_schemas import MOST_PROBLEMS, broken, filled, misfits, pruned
from muster.embedded.api_errors import Cause, bad_request, forbidden, invalid, not_found
from muster.embedded.store.kinds import Kind
from muster.kube.cluster import Raw
from muster.validation.check import check, errors

Unknown = Callable[[Sequence[str]], None]  # what is done about fields that nobody knows
_JUDGED = frozenset((POD_GROUPS, QUEUES, TOPOLOGIES))
_UNCONDITIONAL = frozenset(("poddisruptionbudgets", "leases", "customresourcedefinitions"))


def settled_namespace(found: Raw | None, namespace: str, kind: Kind, name: str) -> None:
    """Nothing new in a namespace that is missing or on its way out."""
    if found is None:
        raise not_found(NAMESPACES, namespace)
    if found["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
        raise forbidden(kind.resource, name, why, [cause])


def dropped(_: Sequence[str]) -> None:
    """Unknown fields go without a word."""


def refused(places: Sequence[str]) -> None:
    """Unknown fields are the end of it."""
    words = ", ".join(f'unknown field "{place}"' for place in places)
    raise bad_request(f"strict decoding error: {words}")


def shaped(raw: Raw, kind: Kind, unknown: Unknown) -> Raw:
    """An object without the fields that nobody knows, after `unknown` was told of them, and with its defaults."""
    lost = strangers(raw, kind)
    if lost:
        unknown(lost[:MOST_PROBLEMS])
    raw = {**raw, "metadata": {name: value for name, value in raw["metadata"].items() if name in metadata.FIELDS}}
    return raw if kind.schema is None else filled(pruned(raw, kind.schema), kind.schema)


def strangers(raw: Raw, kind: Kind) -> list[str]:
    """Where fields are that nobody knows; of built-in kinds only the metadata is known whole."""
    lost = [f"metadata.{name}" for name in raw["metadata"] if name not in metadata.FIELDS]
    return sorted([*lost, *(structural_schemas.unknown(raw, kind.schema) if kind.schema is not None else ())])


def admit(raw: Raw, old: Raw | None, kind: Kind, *, judged: bool = True) -> None:
    """ApiError 422 with every problem that an object has, as a new one or as an update.

    `judged`: by the rules of its kind as well; a write of the status leaves alone what they are about.
    """
    causes = [*metadata.problems(raw, kind), *_of_kind(raw, old, kind, judged)]
    if old is not None:
        causes += _changes(raw, old)
    if causes:
        raise invalid(kind.resource, raw["metadata"].get("name") or "", causes[:MOST_PROBLEMS])


def _of_kind(raw: Raw, old: Raw | None, kind: Kind, judged: bool) -> Iterator[Cause]:
    if kind.schema is not None:
        found = list(misfits(raw, kind.schema))
        yield from found
        if judged and kind.resource in _JUDGED:
            said = {cause.field for cause in found}
            yield from (cause for cause in _rules(raw, old) if cause.field not in said)
    elif kind.resource == PODS and judged:
        yield from pods.problems(raw) if old is None else pods.changes(old, raw)
    elif kind.resource == DEFINITIONS:
        yield from _definition(raw)
    elif judged:
        yield from validation.problems(raw, old, kind.resource)


def _rules(raw: Raw, old: Raw | None) -> Iterator[Cause]:
    """Rules V: every problem is a cause; warnings let pass."""
    for problem in errors(check(raw, old)):
        hint = f" (hint: {problem.hint})" if problem.hint else ""
        yield Cause(problem.at, f"Invalid value: {problem.says}{hint}")


def _definition(raw: Raw) -> Iterator[Cause]:
    """What is wrong with a CRD whose parts have the right types."""
    spec = raw.get("spec", {})
    words = spec.get("names", {})
    for at, value in (
        ("spec.group", spec.get("group")),
        ("spec.scope", spec.get("scope")),
        ("spec.names.plural", words.get("plural")),
        ("spec.names.kind", words.get("kind")),
        ("spec.versions", spec.get("versions")),
    ):
        if not value:
            yield Cause(at, "Required value", "FieldValueRequired")
    if raw["metadata"].get("name") != f"{words.get('plural')}.{spec.get('group')}":
        yield Cause("metadata.name", 'Invalid value: must be spec.names.plural+"."+spec.group')
    if sum(bool(version.get("storage")) for version in spec.get("versions", ())) != 1:
        yield Cause("spec.versions", "Invalid value: must have exactly one version marked as storage version")
    for i, version in enumerate(spec.get("versions", ())):
        yield from _version(version, f"spec.versions[{i}]")


def _version(version: Raw, at: str) -> Iterator[Cause]:
    if not version.get("name"):
        yield Cause(f"{at}.name", "Required value", "FieldValueRequired")
    found, where = version.get("schema", {}).get("openAPIV3Schema"), f"{at}.schema.openAPIV3Schema"
    if found is None:
        yield Cause(where, "Required value", "FieldValueRequired")
    else:
        yield from broken(found, where)
        if not found.get("type"):
            yield Cause(f"{where}.type", "Required value: must not be empty at the root", "FieldValueRequired")
    for i, column in enumerate(version.get("additionalPrinterColumns", ())):
        for field in ("name", "jsonPath"):
            if not column.get(field):
                yield Cause(f"{at}.additionalPrinterColumns[{i}].{field}", "Required value", "FieldValueRequired")


def _changes(raw: Raw, old: Raw) -> Iterator[Cause]:
    """A terminating object gets no new finalizers."""
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [one for one in raw["metadata"].get("finalizers") or () if one not in before]
        if added:
            why = "Forbidden: no new finalizers can be added if the object is being deleted"
            yield Cause("metadata.finalizers", f"{why}, found new finalizers {added}", "FieldValueForbidden")


def needs_version(kind: Kind) -> bool:
    """Whether a replacement must say which version it replaces."""
    return kind.custom or kind.resource.plural in _UNCONDITIONAL
