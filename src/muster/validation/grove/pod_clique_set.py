"""Everything that is refused in a PodCliqueSet (R4-R8): the rules of one set, of its updates, and beside others."""

from collections.abc import Iterator
from typing import Any

from muster.api.decoding import decode
from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.api.names import DEFAULT_NAMESPACE, DNS_LABEL
from muster.validation.context import ValidationContext
from muster.validation.grove import (
    autoscaling,
    cliques,
    collisions,
    names,
    pod_specs,
    scaling_groups,
    startup_order,
    topology,
    unsupported,
    updates,
)
from muster.validation.grove.defaults import with_set_defaults
from muster.validation.grove.places import SetOutline
from muster.validation.problem import Problem


def judge(pcs: PodCliqueSet, raw: Any, old: Any, context: ValidationContext) -> Iterator[Problem]:
    """Every problem of a set: `pcs` has its defaults, `raw` is as it is written; `old`: it is an update of this one."""
    outline = SetOutline(pcs)
    problems = tuple(_judge_alone(outline, raw, context))
    if not isinstance(old, dict):
        yield from problems
        return
    stored = SetOutline(decode(with_set_defaults(old), PodCliqueSet)[0])
    broken = any(problem.severity == "error" for problem in problems)
    yield from updates.ratchet(problems, tuple(_judge_alone(stored, old, context)) if broken else ())
    yield from updates.judge(stored, outline, pod_specs.own_scheduler(context.schedulers))


def _judge_alone(outline: SetOutline, raw: Any, context: ValidationContext) -> Iterator[Problem]:
    yield from _namespace(outline)
    yield from names.judge(outline)
    yield from cliques.judge(outline, raw)
    yield from startup_order.judge(outline)
    yield from scaling_groups.judge(outline)
    yield from autoscaling.judge(outline)
    yield from pod_specs.judge(outline, context.schedulers)
    yield from topology.judge(outline, context.topology_bindings)
    yield from topology.judge_form(raw)
    yield from unsupported.judge(raw)
    yield from collisions.judge(outline)
    namespace = outline.pcs.metadata.namespace or DEFAULT_NAMESPACE
    yield from collisions.judge_beside(outline, context.clique_sets.get(namespace, ()))


def _namespace(outline: SetOutline) -> Iterator[Problem]:
    namespace = outline.pcs.metadata.namespace
    if namespace and not DNS_LABEL.fullmatch(namespace):
        says = f"`{namespace[:80]}` is not a namespace"
        yield Problem("metadata.namespace", says, hint="a DNS label, at most 63", rule="R4")
