"""How many pods a clique has and needs, how many cliques a set has, and how long it waits (R4)."""

from collections.abc import Iterator
from typing import Any

from muster.api.duration import parse_nanoseconds
from muster.api.fields import mapping
from muster.api.grove.pod_clique import MOST_CLIQUES, MOST_TEMPLATES
from muster.api.grove.pod_clique_set import ANY_ORDER, EXPLICIT, IN_ORDER, ON_DELETE, ROLLING_RECREATE
from muster.validation.grove.places import CLIQUES, GROUPS, LARGEST, TEMPLATE, SetOutline, parts
from muster.validation.problem import Problem

SHORT_DELAY_SECONDS = 60
STRATEGIES = (ROLLING_RECREATE, ON_DELETE)
STARTUP_TYPES = (ANY_ORDER, IN_ORDER, EXPLICIT)


def judge(outline: SetOutline, raw: Any) -> Iterator[Problem]:
    """Every problem of a number; `raw` is the set as it is written, without defaults."""
    if not outline.cliques:
        yield Problem(CLIQUES, "holds no clique", hint="a PodCliqueSet has at least one", rule="R4")
    for at, count in ((CLIQUES, len(outline.cliques)), (GROUPS, len(outline.groups))):
        if count > MOST_TEMPLATES:
            yield Problem(at, f"has {count} items", hint=f"at most {MOST_TEMPLATES}: use several sets", rule="R4")
    for at, clique in outline.placed_cliques():
        yield from numbers(f"{at}.spec", clique.spec.replicas, clique.spec.min_available)
    yield from _read_as_one(raw)
    yield from _replicas(outline)
    yield from _words(outline)
    yield from _termination_delay(outline.template.termination_delay)


def numbers(at: str, replicas: int, minimum: int | None) -> Iterator[Problem]:
    """Replicas are positive, and the minimum is among them."""
    if not 0 < replicas <= LARGEST:
        yield Problem(f"{at}.replicas", f"must be greater than 0, is {replicas}", hint="leave it out for 1", rule="R4")
    if minimum is None:
        return
    if minimum <= 0:
        hint = "leave it out for all replicas" if at.endswith(".spec") else "leave it out for 1"
        yield Problem(f"{at}.minAvailable", f"must be greater than 0, is {minimum}", hint=hint, rule="R4")
    elif 0 < replicas < minimum:
        yield Problem(
            f"{at}.minAvailable",
            f"needs {minimum}, but there are {replicas} replicas",
            hint=f"at most {replicas}, or more replicas",
            rule="R4",
        )


def _read_as_one(raw: Any) -> Iterator[Problem]:
    """Grove reads a 0 in a template as 1, and only the PodClique itself can be scaled to zero."""
    for i, clique in enumerate(parts(raw, CLIQUES)):
        stated = mapping(clique, "spec").get("replicas")
        if stated == 0 and not isinstance(stated, bool):
            yield Problem(
                f"{CLIQUES}[{i}].spec.replicas",
                "0 is read as 1",
                hint="scale its PodCliques to 0 once they exist, or the whole set",
                severity="warning",
                rule="R4",
            )


def _replicas(outline: SetOutline) -> Iterator[Problem]:
    replicas = outline.pcs.spec.replicas
    if not 0 <= replicas <= LARGEST:
        yield Problem("spec.replicas", f"must be at least 0, is {replicas}", hint="0 scales it to zero", rule="R4")
        return
    grouped = sum(max(0, group.replicas) * len(group.clique_names) for group in outline.groups)
    each = grouped + sum(clique.name not in outline.group_of for clique in outline.cliques)
    if replicas * each > MOST_CLIQUES:
        yield Problem(
            "spec.replicas",
            f"makes {replicas * each} PodCliques: {replicas} replicas of {each} each",
            hint=f"at most {MOST_CLIQUES} in one set: use several sets",
            rule="R4",
        )


def _words(outline: SetOutline) -> Iterator[Problem]:
    strategy = outline.pcs.spec.update_strategy
    for at, word, known in (
        (f"{TEMPLATE}.cliqueStartupType", outline.template.clique_startup_type, STARTUP_TYPES),
        ("spec.updateStrategy.type", strategy.type if strategy else ROLLING_RECREATE, STRATEGIES),
    ):
        if word not in known:
            yield Problem(at, f"`{word[:60]}` is unknown", hint=f"one of: {', '.join(known)}", rule="R4")


def _termination_delay(delay: str) -> Iterator[Problem]:
    at = f"{TEMPLATE}.terminationDelay"
    try:
        seconds = parse_nanoseconds(delay or "4h") / 10**9
    except ValueError as error:
        yield Problem(at, str(error), hint="such as `30m` or `4h`", rule="R4")
        return
    if seconds <= 0:
        yield Problem(at, f"must be greater than 0, is `{delay}`", hint="such as `4h`, the default", rule="R4")
    elif seconds < SHORT_DELAY_SECONDS:
        yield Problem(
            at,
            f"`{delay}` recreates a gang before a pod that failed has had time to start again",
            hint="minutes rather than seconds; the default is `4h`",
            severity="warning",
            rule="R4",
        )
