"""`muster validate`: check manifests."""

from collections.abc import Iterator
from itertools import filterfalse
from typing import Any

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from muster.api import codec
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.meta import Wire
from muster.api.objects import VALIDATED_KINDS, OtherObject
from muster.api.podgroup import PodGroup
from muster.cli import inputs, options, printing
from muster.reporting.problems import lines as problem_lines
from muster.reporting.text import Line, Span, many
from muster.validation.check import check
from muster.validation.context import ValidationContext
from muster.validation.problem import Problem

UPDATED: tuple[type[Wire], ...] = (PodGroup, PodCliqueSet)  # kinds with rules of updates
Stored = dict[tuple[type[Wire] | None, str], Any]


class Verdict(Struct, frozen=True):
    """One object and what is wrong with it."""

    document: codec.Document
    problems: tuple[Problem, ...]

    @property
    def unreadable(self) -> bool:
        """Some value is of a wrong type."""
        return any(problem.key == "type" for problem in self.problems)

    @property
    def invalid(self) -> bool:
        """Some problem is an error, not a warning."""
        return any(problem.severity == "error" for problem in self.problems)


@click.command("validate")
@options.files
@click.option(
    "--old", "old_files", multiple=True, metavar="FILE", help="The stored objects: check FILE… as updates of them."
)
@options.output("table", "json", "yaml")
@options.max_file_mib
def command(files: tuple[str, ...], old_files: tuple[str, ...], form: str, max_file_mib: int) -> int:
    """Check manifests: print every problem with its path and a hint.

    FILE is a file, a folder or `-`. Checks of a PodGroup use the Topologies, Queues, Nodes and Pods beside it, those of
    a PodCliqueSet the ClusterTopologyBindings and other sets. Exit code 0: valid, perhaps with warnings; 1: invalid; 2:
    cannot be read.

    \b
    Examples:
      muster validate podgroup.yaml
      muster validate cluster/ workloads/
      muster validate --old stored.yaml changed.yaml
      kubectl get podgroups -A -o yaml | muster validate -
    """
    documents = inputs.read(files, max_file_mib)
    collected = codec.collect(documents)
    foreign = replace(collected.objects, others=tuple(filterfalse(_is_validated, collected.objects.others)))
    inputs.note_unknown(foreign)
    inputs.note_unvalidated(foreign)
    context = ValidationContext(collected.objects)
    stored = _stored(old_files, max_file_mib)
    twice = {id(document): where for document, where in collected.repeated}
    verdicts = []
    for document in documents:
        if codec.validated_kind_of(document.raw) is None:
            problems = tuple(problem for problem in check(document.raw) if problem.severity == "error")
            verdicts += [Verdict(document, problems)] if problems else []
            continue
        problems = check(document.raw, _old(document, stored), context)
        if id(document) in twice:
            problems += (Problem("", f"is given twice; the other one is in {twice[id(document)]}", severity="warning"),)
        verdicts.append(Verdict(document, problems))
    _print(verdicts, form)
    return 2 if any(verdict.unreadable for verdict in verdicts) else int(any(verdict.invalid for verdict in verdicts))


def _is_validated(other: OtherObject) -> bool:
    """Whether it is of Grove's kinds, which planning does not read."""
    return other.kind in VALIDATED_KINDS


def _stored(files: tuple[str, ...], max_file_mib: int) -> Stored | None:
    """Stored objects by kind and title; None: everything is new."""
    if not files:
        return None
    return {_identity(document): document.raw for document in inputs.read(files, max_file_mib)}


def _identity(document: codec.Document) -> tuple[type[Wire] | None, str]:
    return codec.validated_kind_of(document.raw), codec.title(document.raw)


def _old(document: codec.Document, stored: Stored | None) -> Any:
    if stored is None or codec.validated_kind_of(document.raw) not in UPDATED:
        return None
    old = stored.get(_identity(document))
    if old is None:
        printing.note(f"{codec.title(document.raw)} is not among the stored ones: checked as new")
    return old


def _print(verdicts: list[Verdict], form: str) -> None:
    if form == "table":
        printing.show(line for verdict in verdicts for line in _lines(verdict))
    else:
        printing.emit(form, "Validation", {"objects": [_data(verdict) for verdict in verdicts]})
    errors = sum(problem.severity == "error" for verdict in verdicts for problem in verdict.problems)
    warnings = sum(len(verdict.problems) for verdict in verdicts) - errors
    printing.say(f"{many(len(verdicts), 'object')}, {many(errors, 'error')}, {many(warnings, 'warning')}")


def _lines(verdict: Verdict) -> Iterator[Line]:
    says = "cannot be read" if verdict.unreadable else "is invalid" if verdict.invalid else "is valid"
    yield [
        Span(f"{verdict.document.where}: ", "dim"),
        Span(codec.title(verdict.document.raw), "name"),
        Span(f" {says}", "bad" if verdict.invalid else "good"),
    ]
    yield from problem_lines(verdict.problems)


def _data(verdict: Verdict) -> dict[str, Any]:
    raw = verdict.document.raw
    meta = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    return {
        "where": verdict.document.where,
        "kind": raw["kind"],
        "namespace": str(meta.get("namespace") or ""),
        "name": str(meta.get("name") or ""),
        "valid": not verdict.invalid,
        "problems": [
            {field: value for field, value in msgspec.structs.asdict(problem).items() if field != "key"}
            for problem in verdict.problems
        ],
    }
