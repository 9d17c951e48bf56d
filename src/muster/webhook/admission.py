"""Admission decisions: `validate` (V1-V6, R4-R8), and `mutate`, which converts (D) and sets defaults (R4). Pure.

Rule: only the object itself can be a reason to deny it. Objects around it may still come (`kubectl apply` of a folder
has no order): a PodGroup without its Topology gets a warning, and waits with a reason (T6, Q2). A PodCliqueSet does not
wait: without its binding it would start without its constraints, and beside a set of like names it would share objects.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.codec import Document, title
from muster.conversion.older_formats import Conversion, convert, may_be_older
from muster.conversion.update_conversion import Managers, convert_update, withdrawn_fields
from muster.errors import MusterError
from muster.reporting.problems import lines
from muster.reporting.text import plain
from muster.validation.check import check, errors
from muster.validation.context import ValidationContext
from muster.validation.grove.defaults import with_set_defaults
from muster.validation.problem import Problem
from muster.webhook.admission_review import (
    GROVE_KINDS,
    VALIDATED_KINDS,
    AdmissionRequest,
    AdmissionResponse,
    Raw,
    short,
)

MOST_PROBLEMS = 200  # problems in one answer; the rest is counted
MOST_WARNINGS = 20
_CAUSES = {"V5": "FieldValueForbidden", "R6": "FieldValueForbidden", "R8": "FieldValueForbidden"}
_NOT_AWAITED = frozenset(("R5", "R7"))  # rules by which objects around it deny an object
_WHERE = "request"


def validate(admission_request: AdmissionRequest, context: ValidationContext | None = None) -> AdmissionResponse:
    """Check creates and updates of our kinds; allow everything else."""
    if not admission_request.is_validated or _is_terminating(admission_request.object):
        return AdmissionResponse(admission_request.uid, allowed=True)
    old = admission_request.old_object if admission_request.operation == "UPDATE" else None
    problems = _problems(admission_request.new, old, context)
    refused = errors(problems)
    warnings = _warnings(problem for problem in problems if problem.severity == "warning")
    if not refused:
        return AdmissionResponse(admission_request.uid, allowed=True, warnings=warnings)
    return AdmissionResponse(
        admission_request.uid, allowed=False, status=_status(admission_request, refused), warnings=warnings
    )


def _is_terminating(raw: Raw) -> bool:
    """A terminating object is not validated: its finalizers must be removable, whatever its spec."""
    meta = raw.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("deletionTimestamp"))


def _problems(raw: Raw, old: Any, context: ValidationContext | None) -> tuple[Problem, ...]:
    """The problems; one that depends on objects that may still come is a warning."""
    problems = check(raw, old, context)
    if context is None or not errors(problems):
        return problems
    alone = frozenset(check(raw, old))
    return tuple(
        problem if problem in alone or problem.rule in _NOT_AWAITED else replace(problem, severity="warning")
        for problem in problems
    )


def _status(admission_request: AdmissionRequest, refused: tuple[Problem, ...]) -> Raw:
    shown, more = refused[:MOST_PROBLEMS], len(refused) - MOST_PROBLEMS
    message = f"{title(admission_request.new)} is invalid\n{plain(lines(shown))}"
    meta = admission_request.object.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f"{message}\n  … and {more} more" if more > 0 else message,
        "details": {
            "name": name if isinstance(name, str) else "",
            "group": admission_request.kind.group,
            "kind": admission_request.kind.kind,
            "causes": [_cause(problem) for problem in shown],
        },
    }


def _cause(problem: Problem) -> Raw:
    kind = "FieldValueTypeInvalid" if problem.key == "type" else _CAUSES.get(problem.rule, "FieldValueInvalid")
    return {"reason": kind, "message": _sentence(problem, at=False), "field": problem.at}


def _sentence(problem: Problem, *, at: bool = True) -> str:
    """One line: path, problem, rule, hint."""
    where = f"{problem.at}: " if problem.at and at else ""
    rule = f" ({problem.rule})" if problem.rule else ""
    hint = f"; hint: {problem.hint}" if problem.hint else ""
    return " ".join(f"{where}{problem.says}{rule}{hint}".split())


def _warnings(problems: Any) -> tuple[str, ...]:
    warnings = [short(_sentence(problem)) for problem in problems]
    more = len(warnings) - MOST_WARNINGS
    return tuple(warnings if more <= 0 else [*warnings[:MOST_WARNINGS], f"… and {more} more warnings"])


def mutate(admission_request: AdmissionRequest, *, converts: bool = True) -> AdmissionResponse:
    """Set the defaults of a PodCliqueSet; convert a PodGroup, where `converts`; allow all else as it is."""
    if admission_request.type == GROVE_KINDS[0]:
        return set_defaults(admission_request)
    return convert_older(admission_request) if converts else AdmissionResponse(admission_request.uid, allowed=True)


def set_defaults(admission_request: AdmissionRequest) -> AdmissionResponse:
    """Set the defaults of a PodCliqueSet; an update that leaves out a minimum keeps it."""
    if not admission_request.is_validated or _is_terminating(admission_request.object):
        return AdmissionResponse(admission_request.uid, allowed=True)
    old = admission_request.old_object if admission_request.operation == "UPDATE" else None
    filled = with_set_defaults(admission_request.object, old)
    patch = diff_specs(admission_request.object.get("spec"), filled.get("spec"))
    if not patch:
        return AdmissionResponse(admission_request.uid, allowed=True)
    return AdmissionResponse(
        admission_request.uid, allowed=True, patch_type="JSONPatch", patch=msgspec.json.encode(patch)
    )


def convert_older(admission_request: AdmissionRequest) -> AdmissionResponse:
    """Convert older dialects to the form of record (D). Never denies: `validate` checks what cannot be converted.

    An object stored in an older form stays as it is until a user rewrites it (V4): an update of another field must not
    change its meaning.
    """
    if (
        not admission_request.is_validated
        or admission_request.type != VALIDATED_KINDS[0]
        or _is_terminating(admission_request.object)
        or not _may_be_older(admission_request)
    ):
        return AdmissionResponse(admission_request.uid, allowed=True)
    raw = _only_needed(admission_request.new)
    try:
        done = _converted(admission_request, Document(_WHERE, raw))
    except MusterError as error:
        return AdmissionResponse(
            admission_request.uid, allowed=True, warnings=(short(f"not converted: {_one_line(error)}"),)
        )
    patch = diff_specs(admission_request.object.get("spec"), done.raw.get("spec")) if done.changes else []
    if not patch:
        return AdmissionResponse(admission_request.uid, allowed=True)
    prefix = f"{_WHERE}: {title(raw)}: "
    warnings = tuple(short(f"converted: {change.removeprefix(prefix)}") for change in done.changes[:MOST_WARNINGS])
    return AdmissionResponse(
        admission_request.uid, allowed=True, warnings=warnings, patch_type="JSONPatch", patch=msgspec.json.encode(patch)
    )


def _may_be_older(admission_request: AdmissionRequest) -> bool:
    """A cheap test before the conversion: most requests neither use an older form nor take back one."""
    spec = admission_request.object.get("spec")
    if admission_request.operation != "UPDATE":
        return may_be_older(spec)
    old = admission_request.old_object.get("spec")
    says_older = spec != old and may_be_older(spec)
    return (says_older or _withdraws(admission_request)) and not _is_older(
        _only_needed({**admission_request.new, "spec": old})
    )


def _withdraws(admission_request: AdmissionRequest) -> bool:
    """Whether an applied manifest no longer holds a field of an older form."""
    new, old = admission_request.object.get("metadata"), admission_request.old_object.get("metadata")
    if not isinstance(new, dict) or not isinstance(old, dict):
        return False
    by_server = bytes(admission_request.managed) != bytes(admission_request.old_managed) and b'"Apply"' in bytes(
        admission_request.old_managed
    )
    by_client = new.get("annotations") != old.get("annotations")
    return (by_server or by_client) and bool(
        withdrawn_fields(admission_request.object, admission_request.old_object, _managers(admission_request))
    )


def _managers(admission_request: AdmissionRequest) -> Managers:
    return Managers(_decoded(admission_request.managed), _decoded(admission_request.old_managed))


def _decoded(raw: msgspec.Raw) -> Any:
    """None where it is empty or unreadable: nothing has parsed it before."""
    try:
        return msgspec.json.decode(raw) if bytes(raw) else None
    except (msgspec.MsgspecError, UnicodeError, ValueError):
        return None


def _only_needed(raw: Raw) -> Raw:
    """The parts that conversion reads: it copies them, so large ones such as `managedFields` stay out."""
    meta = raw.get("metadata")
    named = (
        {name: meta[name] for name in ("name", "generateName", "namespace", "annotations") if name in meta}
        if (isinstance(meta, dict))
        else meta
    )
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": named, "spec": raw.get("spec")}


def _converted(admission_request: AdmissionRequest, document: Document) -> Conversion:
    """Convert a new object, or an update against the stored one (`muster.conversion.update_conversion`)."""
    if admission_request.operation != "UPDATE":
        return convert(document)
    meta = admission_request.object.get("metadata")
    identified = isinstance(meta, dict) and bool(meta.get("uid"))
    # Only a whole object, as of `kubectl replace`, comes without the uid of the stored one.
    whole = bool(bytes(admission_request.managed)) and not identified
    return convert_update(document, admission_request.old_object, _managers(admission_request), whole=whole)


def _one_line(error: MusterError) -> str:
    """Why an object is not converted, without its name, which the caller knows."""
    lines = [line.strip() for line in error.message.removeprefix(f"{_WHERE}: ").splitlines()]
    reasons = [line for line in lines if not line.endswith(("cannot be converted", "cannot be read"))]
    sentence = "; ".join(reasons).replace("two ways; ", "two ways: ", 1)
    return " ".join(f"{sentence}; hint: {error.hint}".split()) if error.hint else " ".join(sentence.split())


def _is_older(raw: Raw) -> bool:
    """Whether the object needs conversion, or holds an older form that cannot be converted."""
    if not may_be_older(raw.get("spec")):
        return False
    try:
        return bool(convert(Document(_WHERE, raw)).changes)
    except MusterError:
        return True


def diff_specs(old: Any, new: Any) -> list[Raw]:
    """A JSON Patch from one spec to another, with the fields that differ."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [{"op": "add", "path": "/spec", "value": new}]
    removed = [{"op": "remove", "path": _pointer(key)} for key in old if key not in new]
    return removed + [
        {"op": "add", "path": _pointer(key), "value": value}
        for key, value in new.items()
        if key not in old or old[key] != value
    ]


def _pointer(key: str) -> str:
    return "/spec/" + key.replace("~", "~0").replace("/", "~1")
