"""`muster conformance`: cases that any gang scheduler could be run on."""

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


class Leaver(Struct, frozen=True, forbid_unknown_fields=True, rename={"whom": "for", "move_to": "moveTo"}):
    """A pod that must be evicted; what is left out may be anything."""

    pod: str  # namespace/name, as everywhere
    reason: str | None = None
    whom: str | None = None
    move_to: bool | str | None = None  # the node it moves to, or whether there is one


Leavers = tuple[str | Leaver, ...]


class Expected(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What must come out for one gang; without `podGroup`, for the whole plan. What is left out may be anything."""

    pod_group: str = ""
    verdict: str | None = None
    reason: str | None = None  # the first one; empty: there is none
    domains: dict[str, str] | None = None  # group -> where it sits
    bound: Places | None = None
    nominated: Places | None = None
    evicted: int | Leavers | None = None  # how many pods, or exactly which; 0: nobody is disturbed
    evicted_any_of: tuple[Leavers, ...] | None = None  # exactly one of these sets: they are equally good


class Spec(Struct, frozen=True, forbid_unknown_fields=True):
    """A case: why it is hard, the rules that decide it, when it is, and what must come out."""

    why: str = ""
    rules: tuple[str, ...] = ()
    now: Annotated[datetime, Meta(tz=True)] | None = None
    expect: tuple[Expected, ...] = ()


class CaseOutcome(Struct, frozen=True):
    """One case and what was not as expected."""

    name: str
    why: str
    misses: tuple[str, ...]


@click.command("conformance")
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
@options.output("table", "json", "yaml")
@options.max_file_mib
def command(files: tuple[str, ...], form: str, max_file_mib: int) -> int:
    """Run the conformance suite: plain Kubernetes objects, each file with a Case that says what must come out, and why.

    FILE is a case or a folder of them; without one, the folder `conformance` here.

    \b
    Examples:
      muster conformance
      muster conformance conformance/010-three-three-four.yaml
    """
    outcomes = [run(source) for source in sources(files or ("conformance",), max_file_mib)]
    if form == "table":
        printing.show(line for outcome in outcomes for line in _lines(outcome))
    else:
        cases = [{"name": one.name, "passed": not one.misses, "misses": list(one.misses)} for one in outcomes]
        printing.emit(form, "Conformance", {"cases": cases})
    failed = sum(bool(outcome.misses) for outcome in outcomes)
    click.echo(f"{len(outcomes) - failed} passed, {failed} failed", err=True)
    return int(failed > 0)


def run(source: ManifestFile) -> CaseOutcome:
    """One case: its objects planned, its expectations compared."""
    documents = codec.read(source.data, source.name)
    cases = [one.raw for one in documents if one.raw.get("kind") == "Case" and one.raw.get("apiVersion") == OURS]
    if len(cases) != 1:
        raise InputError(
            f"{source.name}: holds {len(cases)} cases", hint="one document of kind Case says what to expect"
        )
    spec = _spec(cases[0].get("spec") or {}, source.name)
    given = codec.objects(one for one in documents if one.raw is not cases[0])
    plan = facade.plan(given, now=spec.now).to_dict()
    misses = tuple(miss for expected in spec.expect for miss in _misses(expected, plan))
    return CaseOutcome(cases[0]["metadata"]["name"], spec.why, misses)


def _spec(raw: Any, where: str) -> Spec:
    try:
        return msgspec.convert(raw, Spec)
    except msgspec.ValidationError as error:
        known = ", ".join(sorted(Expected.__struct_encode_fields__))
        raise InputError(f"{where}: the case cannot be read: {error}", hint=f"it can expect: {known}") from None


def _misses(expected: Expected, plan: dict[str, Any]) -> list[str]:
    key = expected.pod_group
    found = [one for one in plan["podGroups"] if f"{one['namespace']}/{one['name']}" == key]
    if key and not found:
        return [f"{key}: is not in the plan"]
    compared = [*_judged(expected, found[0] if found else {}), *_moved(expected, plan)]
    return [
        f"{key or 'plan'}: {field} is {seen}, expected {value}"
        for field, value, seen in compared
        if value is not None and value != seen
    ]


def _judged(expected: Expected, gang: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """What is said about the gang as a whole: the field, what was expected and what came out."""
    yield "verdict", expected.verdict, gang.get("verdict")
    reasons = gang.get("reasons")
    yield "reason", expected.reason, reasons[0]["reason"] if reasons else ""
    if expected.domains is not None:
        domains = dict(_domains(gang["tree"])) if gang else {}
        yield "domains", expected.domains, {name: at for name, at in domains.items() if name in expected.domains}


def _moved(expected: Expected, plan: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Who comes, who may come and who has to leave: the field, what was expected and what came out."""
    key = expected.pod_group
    bound, nominated, evicted = (
        {f"{one['namespace']}/{one['pod']}": one for one in plan[kind] if not key or key == _gang(one)}
        for kind in ("bindings", "nominations", "evictions")
    )
    yield "bound", expected.bound, _like(expected.bound, bound)
    yield "nominated", expected.nominated, _like(expected.nominated, nominated)
    if isinstance(expected.evicted, int):
        yield "evicted", expected.evicted, len(evicted)
    elif expected.evicted is not None:
        yield "evicted", *_leaving((expected.evicted,), evicted)
    if expected.evicted_any_of is not None:
        yield "evicted", *_leaving(expected.evicted_any_of, evicted)


def _leaving(sets: tuple[Leavers, ...], rows: dict[str, Row]) -> tuple[str, str]:
    wanted = " or ".join(map(_words, sets))
    return wanted, wanted if any(_leave(one, rows) for one in sets) else _told(rows)


def _gang(row: Row) -> str:
    return f"{row['namespace']}/{row['podGroup']}"


def _like(places: Places | None, rows: dict[str, Row]) -> Places:
    """What came out, in the form in which it was expected."""
    match places:
        case dict():
            return {pod: row["node"] for pod, row in rows.items()}
        case tuple():
            return tuple(pod for pod in places if pod in rows) + tuple(pod for pod in rows if pod not in places)
        case _:
            return len(rows)


def _leave(leavers: Leavers, rows: dict[str, Row]) -> bool:
    """Whether exactly these are evicted, and as it was said."""
    wanted = [Leaver(one) if isinstance(one, str) else one for one in leavers]
    return {one.pod for one in wanted} == set(rows) and all(_as_said(one, rows[one.pod]) for one in wanted)


def _as_said(leaver: Leaver, row: Row) -> bool:
    to = row.get("moveTo", "")
    same = leaver.reason in (None, row["reason"]) and leaver.whom in (None, row["for"])
    return same and leaver.move_to in (None, to, bool(to))


def _words(leavers: Leavers) -> str:
    return ", ".join(one if isinstance(one, str) else _word(msgspec.to_builtins(one)) for one in leavers) or "nobody"


def _told(rows: dict[str, Row]) -> str:
    return ", ".join(_word({**row, "pod": pod}) for pod, row in rows.items()) or "nobody"


def _word(row: dict[str, Any]) -> str:
    about = [f"{name} {row[name]}" for name in ("reason", "for", "moveTo") if row.get(name) is not None]
    return f"{row['pod']} ({', '.join(about)})" if about else str(row["pod"])


def _domains(tree: dict[str, Any]) -> list[tuple[str, str]]:
    return [(tree["name"], tree["domain"]), *(pair for child in tree["children"] for pair in _domains(child))]


def _lines(outcome: CaseOutcome) -> list[list[Span]]:
    mark = Span("FAIL  ", "bad") if outcome.misses else Span("ok    ", "good")
    first = [mark, Span(outcome.name, "name"), Span(f"  {outcome.why}", "dim")]
    return [first, *([Span(f"      {miss}", "bad")] for miss in outcome.misses)]
