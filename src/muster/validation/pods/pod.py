"""Warnings about a pod, such as that it will never be scheduled (N4)."""

import re
from collections.abc import Iterator

from muster.api import names
from muster.api.core import Pod
from muster.validation.context import Tree, ValidationContext
from muster.validation.pods.membership import Stray, gang_of, leaf_of
from muster.validation.problem import Problem, listed


def judge(pod: Pod, context: ValidationContext) -> Iterator[Problem]:
    """Every warning about a pod."""
    yield from _task_priority(pod)
    gang = gang_of(pod)
    if gang is None or not context.trees:
        return
    if gang in context.trees:
        yield from _joins(pod, gang, context.trees[gang])
    else:
        yield Problem(
            f"metadata.annotations[{names.POD_GROUP}]",
            f"podgroup `{gang}` does not exist: the pod will never be scheduled",
            hint=f"known: {listed(context.trees)}",
            severity="warning",
            rule="N4",
        )


def _joins(pod: Pod, gang: str, tree: Tree) -> Iterator[Problem]:
    joined = leaf_of(pod, tree.leaves, tree.branches)
    if isinstance(joined, Stray):
        yield Problem(
            f"metadata.labels[{names.SUBGROUP}]",
            f"{joined.says}: the pod will never be scheduled",
            hint=f"leaves of `{gang}`: {listed(tree.leaves - {''})}",
            severity="warning",
            rule="N4",
        )


def _task_priority(pod: Pod) -> Iterator[Problem]:
    value = pod.metadata.labels.get(names.TASK_PRIORITY, "0")
    if not re.fullmatch(r"-?\d{1,9}", value):
        yield Problem(
            f"metadata.labels[{names.TASK_PRIORITY}]",
            f"`{value[:60]}` is not a whole number and counts as 0",
            hint="higher goes first",
            severity="warning",
            rule="M4",
        )
