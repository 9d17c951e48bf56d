"""Pod specs of cliques (R4): the scheduler chooses nodes, and one scheduler places all pods of a set.

A clique that names no scheduler has ours: its pods are made with the first of our names.
"""

from collections.abc import Iterator, Sequence

from muster.api.fields import items, text
from muster.api.grove.pod_clique_set import PodCliqueTemplate
from muster.api.names import DEFAULT_SCHEDULER
from muster.validation.grove.places import SetOutline
from muster.validation.problem import Problem

_OWN = {
    "topologySpreadConstraints": "a gang is packed, not spread: use `topologyConstraint` of the clique",
    "nodeName": "the scheduler chooses nodes: use `nodeSelector` or node affinity",
}


def judge(outline: SetOutline, ours: Sequence[str] = ()) -> Iterator[Problem]:
    """Every problem of a pod spec. `ours`: our schedulers; empty: they are not known."""
    for at, clique in outline.placed_cliques():
        yield from _spec(f"{at}.spec.podSpec", clique)
    yield from _schedulers(outline, own_scheduler(ours))
    yield from _other_scheduler(outline, ours)


def _other_scheduler(outline: SetOutline, ours: Sequence[str]) -> Iterator[Problem]:
    """A set of another scheduler is left alone (N6): that nothing becomes of it must not come as a surprise."""
    for at, clique in outline.placed_cliques():
        named = text(clique.spec.pod_spec, "schedulerName")
        if ours and named and named not in ours:
            yield Problem(
                f"{at}.spec.podSpec.schedulerName",
                f"muster leaves this set to scheduler `{named[:63]}`, and makes no pods of it",
                hint=f"`{ours[0]}`, or leave it out; or add it to `scheduling.schedulerNames` of muster",
                severity="warning",
                rule="N6",
            )
            return


def own_scheduler(ours: Sequence[str]) -> str:
    """The scheduler of pods that name none."""
    return ours[0] if ours else DEFAULT_SCHEDULER


def scheduler_of(clique: PodCliqueTemplate, own: str) -> str:
    """The scheduler that the pods of a clique name. `own`: where they name none."""
    return text(clique.spec.pod_spec, "schedulerName") or own


def _spec(at: str, clique: PodCliqueTemplate) -> Iterator[Problem]:
    spec = clique.spec.pod_spec
    if not isinstance(spec, dict):
        says = "is missing" if spec is None else "expected an object"
        yield Problem(at, says, hint="the spec of each pod, with `containers`", rule="R4")
        return
    if not items(spec, "containers"):
        yield Problem(f"{at}.containers", "holds no container", hint="a pod has at least one", rule="R4")
    for field, way_out in _OWN.items():
        if spec.get(field):
            yield Problem(f"{at}.{field}", "must not be set in a clique", hint=way_out, rule="R4")


def _schedulers(outline: SetOutline, own: str) -> Iterator[Problem]:
    """Of a gang, every pod waits for the same scheduler."""
    if not outline.cliques:
        return
    first = outline.cliques[0]
    wanted = scheduler_of(first, own)
    for at, clique in outline.placed_cliques():
        if (named := scheduler_of(clique, own)) != wanted:
            yield Problem(
                f"{at}.spec.podSpec.schedulerName",
                f"is `{named[:63]}`, but that of clique `{first.name[:63]}` is `{wanted[:63]}`",
                hint="one scheduler places all pods of a set; left out, it is muster's own",
                rule="R4",
            )
