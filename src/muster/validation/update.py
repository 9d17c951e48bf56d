"""Rules of updates: the old object against the new one (V4, V5)."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from muster.api import names
from muster.api.podgroup import PodGroup
from muster.validation.podgroup import GroupPlace, outline
from muster.validation.problem import Problem

RATCHETED = frozenset(("V1", "V2"))


def ratchet(new: Iterable[Problem], old: Iterable[Problem]) -> Iterator[Problem]:
    """V4: a problem that the stored object has already is only a warning."""
    problems = tuple(new)
    broken = any(problem.key for problem in problems)  # else the old problems do not matter, and are not computed
    known = {problem.key for problem in old if problem.key and problem.rule in RATCHETED} if broken else set()
    for problem in problems:
        if problem.key in known and problem.severity == "error":
            yield replace(problem, severity="warning", says=f"{problem.says} (as the stored one already does)")
        else:
            yield problem


def raised_minimums(old: PodGroup, new: PodGroup) -> Iterator[Problem]:
    """V5: while a semi-preemptible gang runs, its minimums cannot rise: preemptible pods stay preemptible."""
    if not (_is_semi_preemptible(old) and is_running(old)) or old.spec == new.spec:
        return
    before = {place.name: place for place in outline(old.spec).places}
    for place in outline(new.spec).places:
        if place.name in before:
            yield from _raised_minimum(before[place.name], place)


def _raised_minimum(old: GroupPlace, new: GroupPlace) -> Iterator[Problem]:
    if bool(old.children) != bool(new.children):
        return  # a leaf that became a branch, or the reverse: not the same minimum
    for field, was, now in (("minMember", *_pods(old, new)), ("minSubGroup", *_children(old, new))):
        if now > was:
            keep = f"at most {was}" if was else "leave it out"  # a minimum of 0 is refused (V1)
            yield Problem(
                f"{new.at}.{field}",
                f"raises the minimum of {new.called} from {was} to {now} while the semi-preemptible gang runs",
                hint=f"{keep}; lowering is allowed, or scale the gang down first",
                rule="V5",
            )


def _pods(old: GroupPlace, new: GroupPlace) -> tuple[int, int]:
    """A leaf without a number needs 1; a branch without one counts no pods (M5)."""
    unset = 0 if new.children else 1
    return max(old.min_member or unset, unset), max(new.min_member or unset, unset)


def _children(old: GroupPlace, new: GroupPlace) -> tuple[int, int]:
    """Unset means all; unset before and after, children may come and go."""
    if not new.children or (old.min_sub_group is None and new.min_sub_group is None):
        return 0, 0
    return old.min_sub_group or old.children, new.min_sub_group or new.children


def _is_semi_preemptible(group: PodGroup) -> bool:
    stated = group.spec.preemptibility or group.metadata.labels.get(names.PREEMPTIBILITY, "")
    return stated == names.SEMI_PREEMPTIBLE


def is_running(group: PodGroup) -> bool:
    """Whether a stored gang may have placed pods: only a status without any rules it out."""
    status = group.status
    if status is None:
        return True
    return bool(status.phase == "Running" or status.running or status.satisfied or status.resources_status.allocated)
