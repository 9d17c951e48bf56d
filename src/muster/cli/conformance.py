"""`muster conformance`: cases that any gang scheduler should pass."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import click
import msgspec
from msgspec import Meta, Struct

from muster import facade
from muster.api import codec
from muster.api.names import OURS
from muster.cli import options, printing
from muster.errors import InputError
from muster.kube.manifest_files import ManifestFile, sources
from muster.reporting.text import Span

Row = dict[str, str]  # a binding, a nomination or an eviction, as a plan prints it
Places = int | tuple[str, ...] | dict[str, str]  # how many pods; exactly which; or on which node each


class ExpectedEviction(Struct, frozen=True, forbid_unknown_fields=True, rename={"gang": "for", "move_to": "moveTo"}):
    """A pod that the plan must evict. A field that is left out may have any value."""

    pod: str  # namespace/name, as everywhere
    reason: str | None = None
    gang: str | None = None  # the gang that it makes way for
    move_to: bool | str | None = None  # the node it moves to, or whether there is one


Evictions = tuple[str | ExpectedEviction, ...]


class Expected(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What one gang must get; without `podGroup`, the whole plan. A field that is left out is not checked."""

    pod_group: str = ""
    verdict: str | None = None
    reason: str | None = None  # the first one; empty: there is none
    domains: dict[str, str] | None = None  # group -> its domain
    bound: Places | None = None
    nominated: Places | None = None
    evicted: int | Evictions | None = None  # how many pods, or exactly which; 0: none
    evicted_any_of: tuple[Evictions, ...] | None = None  # exactly one of these sets: they are equally good


class Spec(Struct, frozen=True, forbid_unknown_fields=True):
    """A case: why it is hard, the rules that decide it, the time of the plan, and the expectations."""

    why: str = ""
    rules: tuple[str, ...] = ()
    now: Annotated[datetime, Meta(tz=True)] | None = None
    expect: tuple[Expected, ...] = ()


class CaseOutcome(Struct, frozen=True):
    """One case and its failed expectations."""

    name: str
    why: str
    misses: tuple[str, ...]


@click.command("conformance")
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
@options.output("table", "json", "yaml")
@options.max_file_mib
def command(files: tuple[str, ...], form: str, max_file_mib: int) -> int:
    """Run the conformance suite: cases that any gang scheduler should pass.

    A case is a file of plain Kubernetes objects with one Case that states the expected plan and why. FILE is a case or
    a folder of cases; the default is the folder `conformance`. Exit code 1: a case failed.

    \b
    Examples:
      muster conformance
      muster conformance conformance/010-three-three-four.yaml
    """
    outcomes = [run(source) for source in sources(files or ("conformance",), max_file_mib)]
    if form == "table":
        printing.show(line for outcome in outcomes for line in _lines(outcome))
    else:
        cases = [{"name": case.name, "passed": not case.misses, "misses": list(case.misses)} for case in outcomes]
        printing.emit(form, "Conformance", {"cases": cases})
    failed = sum(bool(outcome.misses) for outcome in outcomes)
    printing.say(f"{len(outcomes) - failed} passed, {failed} failed")
    return int(failed > 0)


def run(source: ManifestFile) -> CaseOutcome:
    """Plan the objects of one case and compare the plan with its expectations."""
    documents = codec.read(source.data, source.name)
    cases = [raw for raw in (document.raw for document in documents) if _is_case(raw)]
    if len(cases) != 1:
        raise InputError(
            f"{source.name}: holds {len(cases)} cases", hint="one document of kind Case says what to expect"
        )
    spec = _spec(cases[0].get("spec") or {}, source.name)
    objects = codec.objects(document for document in documents if document.raw is not cases[0])
    plan = facade.plan(objects, now=spec.now).to_dict()
    misses = tuple(miss for expected in spec.expect for miss in _misses(expected, plan))
    return CaseOutcome(cases[0]["metadata"]["name"], spec.why, misses)


def _is_case(raw: dict[str, Any]) -> bool:
    return raw.get("kind") == "Case" and raw.get("apiVersion") == OURS


def _spec(raw: Any, where: str) -> Spec:
    try:
        return msgspec.convert(raw, Spec)
    except msgspec.ValidationError as error:
        known = ", ".join(sorted(Expected.__struct_encode_fields__))
        raise InputError(f"{where}: the case cannot be read: {error}", hint=f"it can expect: {known}") from None


def _misses(expected: Expected, plan: dict[str, Any]) -> list[str]:
    """A sentence for each field of the plan that is not as expected."""
    key = expected.pod_group
    gangs = [gang for gang in plan["podGroups"] if f"{gang['namespace']}/{gang['name']}" == key]
    if key and not gangs:
        return [f"{key}: is not in the plan"]
    compared = [*_compare_gang(expected, gangs[0] if gangs else {}), *_compare_pods(expected, plan)]
    return [
        f"{key or 'plan'}: {field} is {actual}, expected {value}"
        for field, value, actual in compared
        if value is not None and value != actual
    ]


def _compare_gang(expected: Expected, gang: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Fields of the gang as a whole: the name, the expected and the actual value."""
    yield "verdict", expected.verdict, gang.get("verdict")
    reasons = gang.get("reasons")
    yield "reason", expected.reason, reasons[0]["reason"] if reasons else ""
    if expected.domains is not None:
        domains = dict(_domains(gang["tree"])) if gang else {}
        yield "domains", expected.domains, {name: at for name, at in domains.items() if name in expected.domains}


def _compare_pods(expected: Expected, plan: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Bindings, nominations and evictions: the name, the expected and the actual value."""
    key = expected.pod_group
    bound, nominated, evicted = (
        {f"{row['namespace']}/{row['pod']}": row for row in plan[kind] if not key or key == _gang(row)}
        for kind in ("bindings", "nominations", "evictions")
    )
    yield "bound", expected.bound, _like(expected.bound, bound)
    yield "nominated", expected.nominated, _like(expected.nominated, nominated)
    if isinstance(expected.evicted, int):
        yield "evicted", expected.evicted, len(evicted)
    elif expected.evicted is not None:
        yield "evicted", *_compare_evictions((expected.evicted,), evicted)
    if expected.evicted_any_of is not None:
        yield "evicted", *_compare_evictions(expected.evicted_any_of, evicted)


def _compare_evictions(sets: tuple[Evictions, ...], rows: dict[str, Row]) -> tuple[str, str]:
    """The expected and the actual value in words: the same where one of the sets matches."""
    words = " or ".join(map(_expected_words, sets))
    return words, words if any(_matches(evictions, rows) for evictions in sets) else _actual_words(rows)


def _gang(row: Row) -> str:
    return f"{row['namespace']}/{row['podGroup']}"


def _like(places: Places | None, rows: dict[str, Row]) -> Places:
    """The actual places, in the form of the expected ones."""
    match places:
        case dict():
            return {pod: row["node"] for pod, row in rows.items()}
        case tuple():
            return tuple(pod for pod in places if pod in rows) + tuple(pod for pod in rows if pod not in places)
        case _:
            return len(rows)


def _matches(evictions: Evictions, rows: dict[str, Row]) -> bool:
    """Whether the plan evicts exactly these pods, each as expected."""
    expected = [ExpectedEviction(item) if isinstance(item, str) else item for item in evictions]
    return {item.pod for item in expected} == set(rows) and all(
        _is_as_expected(item, rows[item.pod]) for item in expected
    )


def _is_as_expected(expected: ExpectedEviction, row: Row) -> bool:
    to = row.get("moveTo", "")
    same = expected.reason in (None, row["reason"]) and expected.gang in (None, row["for"])
    return same and expected.move_to in (None, to, bool(to))


def _expected_words(evictions: Evictions) -> str:
    words = (item if isinstance(item, str) else _eviction_words(msgspec.to_builtins(item)) for item in evictions)
    return ", ".join(words) or "no pod"


def _actual_words(rows: dict[str, Row]) -> str:
    return ", ".join(_eviction_words({**row, "pod": pod}) for pod, row in rows.items()) or "no pod"


def _eviction_words(row: dict[str, Any]) -> str:
    about = [f"{name} {row[name]}" for name in ("reason", "for", "moveTo") if row.get(name) is not None]
    return f"{row['pod']} ({', '.join(about)})" if about else str(row["pod"])


def _domains(tree: dict[str, Any]) -> list[tuple[str, str]]:
    return [(tree["name"], tree["domain"]), *(pair for child in tree["children"] for pair in _domains(child))]


def _lines(outcome: CaseOutcome) -> list[list[Span]]:
    mark = Span("FAIL  ", "bad") if outcome.misses else Span("ok    ", "good")
    first = [mark, Span(outcome.name, "name"), Span(f"  {outcome.why}", "dim")]
    return [first, *([Span(f"      {miss}", "bad")] for miss in outcome.misses)]
