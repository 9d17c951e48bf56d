"""`muster conformance`: cases that any gang scheduler could be run on."""

from typing import Any

import click
from msgspec import Struct

from muster import facade
from muster.api import codec
from muster.api.names import OURS
from muster.cli import wire
from muster.cluster.files import Source, sources
from muster.errors import InputError
from muster.reporting.text import Span

FIELDS = frozenset(("podGroup", "verdict", "reason", "bound", "domains"))


class Outcome(Struct, frozen=True):
    """One case and what was not as expected."""

    name: str
    why: str
    misses: tuple[str, ...]


@click.command("conformance")
@click.argument("files", nargs=-1, metavar="[FILE…]", type=click.Path(allow_dash=True))
@wire.output("table", "json", "yaml")
@wire.max_file_mib
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
        wire.show(line for outcome in outcomes for line in _lines(outcome))
    else:
        cases = [{"name": one.name, "passed": not one.misses, "misses": list(one.misses)} for one in outcomes]
        wire.emit(form, "Conformance", {"cases": cases})
    failed = sum(bool(outcome.misses) for outcome in outcomes)
    click.echo(f"{len(outcomes) - failed} passed, {failed} failed", err=True)
    return int(failed > 0)


def run(source: Source) -> Outcome:
    """One case: its objects planned, its expectations compared."""
    documents = codec.read(source.data, source.name)
    cases = [one.raw for one in documents if one.raw.get("kind") == "Case" and one.raw.get("apiVersion") == OURS]
    if len(cases) != 1:
        raise InputError(
            f"{source.name}: holds {len(cases)} cases", hint="one document of kind Case says what to expect"
        )
    spec = cases[0].get("spec") or {}
    plan = facade.plan(codec.objects(one for one in documents if one.raw is not cases[0])).to_dict()
    misses = tuple(miss for expected in spec.get("expect", ()) for miss in _misses(expected, plan, source.name))
    return Outcome(cases[0]["metadata"]["name"], str(spec.get("why", "")), misses)


def _misses(expected: dict[str, Any], plan: dict[str, Any], where: str) -> list[str]:
    if unknown := set(expected) - FIELDS:
        raise InputError(f"{where}: cannot expect `{min(unknown)}`", hint=f"known: {', '.join(sorted(FIELDS))}")
    key = expected["podGroup"]
    found = [one for one in plan["podGroups"] if f"{one['namespace']}/{one['name']}" == key]
    if not found:
        return [f"{key}: is not in the plan"]
    bound = sum(f"{one['namespace']}/{one['podGroup']}" == key for one in plan["bindings"])
    seen = {
        "verdict": found[0]["verdict"],
        "reason": found[0]["reasons"][0]["reason"] if found[0]["reasons"] else "",
        "bound": bound,
        "domains": {name: domain for name, domain in _domains(found[0]["tree"]) if name in expected.get("domains", {})},
    }
    return [
        f"{key}: {field} is {seen[field]}, expected {value}"
        for field, value in expected.items()
        if field != "podGroup" and seen[field] != value
    ]


def _domains(tree: dict[str, Any]) -> list[tuple[str, str]]:
    return [(tree["name"], tree["domain"]), *(pair for child in tree["children"] for pair in _domains(child))]


def _lines(outcome: Outcome) -> list[list[Span]]:
    mark = Span("FAIL  ", "bad") if outcome.misses else Span("ok    ", "good")
    first = [mark, Span(outcome.name, "name"), Span(f"  {outcome.why}", "dim")]
    return [first, *([Span(f"      {miss}", "bad")] for miss in outcome.misses)]
