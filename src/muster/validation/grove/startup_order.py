"""The order in which cliques start (R4): `startsAfter` names other cliques, each once, and never in a circle."""

from collections.abc import Iterator

from muster.api.grove.pod_clique_set import EXPLICIT, PodCliqueTemplate
from muster.validation.grove.places import SetOutline
from muster.validation.problem import Problem, listed


def judge(outline: SetOutline) -> Iterator[Problem]:
    """Every problem of the order; where the startup type is another one, the fields are ignored."""
    if outline.template.clique_startup_type != EXPLICIT:
        yield from _ignored(outline)
        return
    for at, clique in outline.placed_cliques():
        yield from _parents(outline, f"{at}.spec.startsAfter", clique)
    yield from _circle(outline)


def _ignored(outline: SetOutline) -> Iterator[Problem]:
    for at, clique in outline.placed_cliques():
        if clique.spec.starts_after:
            yield Problem(
                f"{at}.spec.startsAfter",
                f"is ignored: the startup type is {outline.template.clique_startup_type[:60]}",
                hint=f"set `cliqueStartupType: {EXPLICIT}`, or leave it out",
                severity="warning",
                rule="R4",
            )


def _parents(outline: SetOutline, at: str, clique: PodCliqueTemplate) -> Iterator[Problem]:
    known: set[str] = set()
    for i, parent in enumerate(clique.spec.starts_after):
        place = f"{at}[{i}]"
        if not parent:
            yield Problem(place, "is empty", hint="the name of a clique that starts first", rule="R4")
        elif parent == clique.name:
            yield Problem(place, f"`{parent}` cannot start after itself", hint="leave it out", rule="R4")
        elif parent not in outline.by_name:
            says = f"`{parent[:63]}` is not a clique of this set"
            yield Problem(place, says, hint=f"known: {listed(outline.by_name)}", rule="R4")
        elif parent in known:
            yield Problem(place, f"`{parent}` is named twice", hint="name each clique once", rule="R4")
        known.add(parent)


def _circle(outline: SetOutline) -> Iterator[Problem]:
    """One problem for all that wait for each other: cliques that remain when whatever can start has started."""
    waits = {
        clique.name: {parent for parent in clique.spec.starts_after if parent in outline.by_name} - {clique.name}
        for clique in outline.cliques
    }
    path = _find_circle(waits)
    if path:
        at = next(at for at, clique in outline.placed_cliques() if clique.name == path[0])
        yield Problem(
            f"{at}.spec.startsAfter",
            f"goes round in a circle: {' → '.join(path[:12])}{' → …' if len(path) > 12 else ''}",
            hint="one of them must start first",
            rule="R4",
        )


def _find_circle(waits: dict[str, set[str]]) -> list[str]:
    """Cliques that wait for each other, the first one last as well; empty: there are none. Linear."""
    left = {name: len(parents) for name, parents in waits.items()}
    children: dict[str, list[str]] = {}
    for name, parents in waits.items():
        for parent in parents:
            children.setdefault(parent, []).append(name)
    ready = [name for name, count in left.items() if not count]
    while ready:
        started = ready.pop()
        del left[started]
        for child in children.get(started, ()):
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    return _walk(waits, left)


def _walk(waits: dict[str, set[str]], left: dict[str, int]) -> list[str]:
    """From any clique that is left, back through parents that are left, until one comes again."""
    if not left:
        return []
    path: dict[str, None] = {}
    name = next(iter(left))
    while name not in path:
        path[name] = None
        name = min(parent for parent in waits[name] if parent in left)
    circle = list(path)[list(path).index(name) :]
    return [*circle, name]
