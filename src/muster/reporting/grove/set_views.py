"""A PodCliqueSet drawn as a tree, and as data. CLI and dashboard share these."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from muster.model.gang.pod_state import PodState
from muster.reporting.grove.set_reports import CliqueReport, GangReport, PodReport, ReplicaReport, SetReport
from muster.reporting.text import Line, Role, Span, guides, many, table
from muster.validation.problem import listed

MANY_PODS, MANY_GANGS = 64, 40  # above these, pods and cliques are left out of the picture
STATE_ROLES: Mapping[str, Role] = {"Scheduled": "good", "Waiting": "warn", "Gated": "warn", "Unknown": "warn"}
Row = tuple[Span, Span, Span, Span, Span]
HEADER = ("PART", "NEEDS", "PLACED", "TOGETHER IN", "STATE")


def draw_set(report: SetReport) -> Iterator[Line]:
    """The set with its replicas, gangs, cliques and pods; below, why gangs wait."""
    yield _heading(report)
    for note in report.notes:
        yield [Span(f"! {note}", "warn")]
    rows = dict(_rows(report))
    if len(rows) > 1:
        lines = guides(_children(report))
        header = [Span(word, "dim") for word in HEADER]
        body = [[Span(lines[key] + row[0].text, row[0].role), *row[1:]] for key, row in rows.items()]
        yield from table([header, *body])
    yield from _left_out(report)
    yield from _reasons(report)


def _heading(report: SetReport) -> Line:
    ready = sum(replica.is_satisfied for replica in report.replicas)
    is_done = bool(report.wanted) and ready == report.wanted
    return [
        Span(f"{report.namespace}/{report.name}", "name"),
        Span("  PodCliqueSet  ", "dim"),
        Span(f"{ready} of {many(report.wanted, 'replica')} scheduled", "good" if is_done else "warn"),
    ]


def _reasons(report: SetReport) -> Iterator[Line]:
    """Why gangs wait; those that wait for the same reasons once."""
    gangs = [gang for replica in report.replicas for gang in replica.gangs if gang.reasons or gang.note]
    for _, same in groupby(gangs, key=lambda gang: (gang.state, gang.note, gang.reasons, gang.hints)):
        alike = list(same)
        gang, role = alike[0], STATE_ROLES.get(alike[0].state, "bad")
        yield []
        yield [Span(f"{gang.state}  ", role), Span(listed([each.name for each in alike]), "name")]
        if gang.note:
            yield [Span(f"  {gang.note}", "dim")]
        yield from ([Span(f"  {reason}", role)] for reason in gang.reasons)
        yield from ([Span(f"  hint: {hint}")] for hint in gang.hints)


# rows ---------------------------------------------------------------------------------------------------------------


def _shows_cliques(report: SetReport) -> bool:
    return sum(len(replica.gangs) for replica in report.replicas) <= MANY_GANGS


def _shows_pods(report: SetReport) -> bool:
    return _shows_cliques(report) and sum(len(clique.pods) for clique in report.cliques) <= MANY_PODS


def _left_out(report: SetReport) -> Iterator[Line]:
    if not _shows_pods(report):
        pods = many(sum(len(clique.pods) for clique in report.cliques), "pod")
        what = f"{pods} are" if _shows_cliques(report) else f"cliques and {pods} are"
        yield [Span(f"{what} left out here (all of them: -o json)", "dim")]


def _children(report: SetReport) -> Iterator[tuple[str, list[str]]]:
    """Every row with the rows below it; names of different levels may be equal, so that each has a letter."""
    yield "s", [f"r{replica.index}" for replica in report.replicas]
    for replica in report.replicas:
        yield f"r{replica.index}", [f"g{gang.name}" for gang in replica.gangs]
        for gang in replica.gangs:
            cliques = gang.cliques if _shows_cliques(report) else ()
            yield f"g{gang.name}", [f"c{clique.name}" for clique in cliques]
            for clique in cliques:
                pods = clique.pods if _shows_pods(report) else ()
                yield f"c{clique.name}", [f"p{pod.name}" for pod in pods]


def _rows(report: SetReport) -> Iterator[tuple[str, Row]]:
    yield "s", _set_row(report)
    for replica in report.replicas:
        yield f"r{replica.index}", _replica_row(replica)
        for gang in replica.gangs:
            yield f"g{gang.name}", _gang_row(gang)
            for clique in gang.cliques if _shows_cliques(report) else ():
                yield f"c{clique.name}", _clique_row(clique)
                for pod in clique.pods if _shows_pods(report) else ():
                    yield f"p{pod.name}", _pod_row(pod)


def _set_row(report: SetReport) -> Row:
    cliques = tuple(report.cliques)
    return Span(report.name, "name"), Span(many(report.wanted, "replica")), _placed(cliques), Span("-", "dim"), Span("")


def _replica_row(replica: ReplicaReport) -> Row:
    cliques = [clique for gang in replica.gangs for clique in gang.cliques]
    base = next((gang.name for gang in replica.gangs if not gang.base), "")
    return Span(f"replica {replica.index}"), Span(f"gang {base}"), _placed(cliques), Span("-", "dim"), Span("")


def _gang_row(gang: GangReport) -> Row:
    after = f", after {gang.base}" if gang.base else ""
    need = "its one clique" if len(gang.cliques) == 1 else f"all {len(gang.cliques)} cliques"
    state = Span(f"{gang.state}{after}", STATE_ROLES.get(gang.state, "bad"))
    return Span(gang.name, "name"), Span(need), _placed(gang.cliques), _where(gang.together, gang.domain), state


def _clique_row(clique: CliqueReport) -> Row:
    state = f"{clique.gated} gated" if clique.gated else ""
    placed = Span(f"{clique.placed}/{clique.replicas}", "good" if clique.is_satisfied else "warn")
    where = _where(clique.together, clique.domain)
    return Span(clique.name), Span(many(clique.minimum, "pod")), placed, where, Span(state, "warn")


def _pod_row(pod: PodReport) -> Row:
    is_placed = pod.state is PodState.PLACED
    state = Span(pod.role or "placed") if is_placed else Span(str(pod.state), "warn")
    return Span(pod.name, "dim"), Span(""), Span(pod.node or "-"), Span(""), state


def _placed(cliques: Any) -> Span:
    placed, wanted = sum(clique.placed for clique in cliques), sum(clique.replicas for clique in cliques)
    return Span(f"{placed}/{wanted}", "good" if all(clique.is_satisfied for clique in cliques) else "warn")


def _where(words: str, domain: str) -> Span:
    return Span(f"{words}: {domain}" if domain else words) if words else Span("-", "dim")


# data ---------------------------------------------------------------------------------------------------------------


def set_data(report: SetReport) -> dict[str, Any]:
    """The set for programs: every level with its minimum and what is placed."""
    return {
        "namespace": report.namespace,
        "name": report.name,
        "replicas": report.wanted,
        "scheduledReplicas": sum(replica.is_satisfied for replica in report.replicas),
        "notes": list(report.notes),
        "setReplicas": [
            {
                "index": replica.index,
                "satisfied": replica.is_satisfied,
                "podGangs": [_gang_data(gang) for gang in replica.gangs],
            }
            for replica in report.replicas
        ],
    }


def _gang_data(gang: GangReport) -> dict[str, Any]:
    return {
        "name": gang.name,
        "after": gang.base,
        "state": gang.state,
        "satisfied": gang.is_satisfied,
        "note": gang.note,
        "reasons": list(gang.reasons),
        "hints": list(gang.hints),
        "together": gang.together,
        "domain": gang.domain,
        "podCliques": [_clique_data(clique) for clique in gang.cliques],
    }


def _clique_data(clique: CliqueReport) -> dict[str, Any]:
    return {
        "name": clique.name,
        "need": clique.minimum,
        "replicas": clique.replicas,
        "placed": clique.placed,
        "gated": clique.gated,
        "satisfied": clique.is_satisfied,
        "together": clique.together,
        "domain": clique.domain,
        "pods": [
            {"name": pod.name, "state": str(pod.state), "node": pod.node, "role": pod.role} for pod in clique.pods
        ],
    }
