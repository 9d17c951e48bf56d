"""Names that two parts would share (R7), in one PodCliqueSet and between two of them in a namespace.

A name is a list of words between dashes, of which some are replica numbers: `w-<i>-sg-<j>-b`. A number never holds a
dash, so two names can be equal only where they have as many words, and each pair of words can be equal.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from muster.api.grove.pod_clique_set import PodCliqueSet
from muster.validation.grove.places import CLIQUES, TEMPLATE, SetOutline
from muster.validation.problem import Problem

MOST_COMPARISONS = 200_000  # of names; more are only possible with thousands of names that are nothing but numbers
Word = str | int  # a number: how many replicas there are now, of which any may stand here


class NamePattern(Struct, frozen=True):
    """Every name that a part of a set has in its replicas."""

    kind: str
    called: str
    words: tuple[Word, ...]
    at: str = ""

    @property
    def bucket(self) -> tuple[str, ...]:
        """Equal for all patterns that may share a name: every number counts as any number."""
        return (self.kind, *("#" if isinstance(word, int) or _is_number(word) else word for word in self.words))


class SharedName(Struct, frozen=True):
    """A name that two patterns share, and whether both have it with the replicas of now."""

    name: str
    is_present: bool


def share_name(first: NamePattern, second: NamePattern) -> SharedName | None:
    """The first name that both have; None: they never share one. Only patterns of one bucket are compared."""
    words, is_present = [], True
    for one, other in zip(first.words, second.words, strict=True):
        counts = [word for word in (one, other) if isinstance(word, int)]
        stated = [word for word in (one, other) if isinstance(word, str)]
        if len(set(stated)) > 1:
            return None
        number = int(stated[0]) if stated and counts else 0
        is_present &= all(number < count for count in counts)
        words.append(stated[0] if stated else "0")
    return SharedName("-".join(words), is_present)


def judge(outline: SetOutline) -> Iterator[Problem]:
    """Names that two parts of one set share: whatever their replicas are now, they may be scaled."""
    patterns = [*_inside(outline)]
    reported: set[frozenset[str]] = set()
    for first, second, shared in _pairs(patterns, patterns):
        pair = frozenset((first.called, second.called))
        if pair in reported:
            continue
        reported.add(pair)
        yield Problem(
            first.at or second.at,
            f"{first.called} and {second.called} share the name `{shared.name}` of a {first.kind}",
            hint="rename one of them",
            rule="R7",
        )


def judge_beside(outline: SetOutline, others: Iterable[PodCliqueSet]) -> Iterator[Problem]:
    """Names that a set shares with another one of its namespace; with numbers that neither has yet, a warning."""
    own = [*_outside(outline)]
    for other in others:
        if other.metadata.name == outline.name or not _may_overlap(outline.name, other.metadata.name):
            continue
        pair = min(_pairs(own, [*_outside(SetOutline(other))]), key=lambda pair: not pair[2].is_present, default=None)
        if pair is not None:
            yield _between(other.metadata.name, *pair)


def _between(other: str, first: NamePattern, second: NamePattern, shared: SharedName) -> Problem:
    when = "" if shared.is_present else " once there are as many replicas"
    return Problem(
        "metadata.name",
        f"{first.called} and {second.called} of set `{other}` share the name `{shared.name}` of a {first.kind}{when}",
        hint="rename this set: another name than that of a part of the other one",
        severity="error" if shared.is_present else "warning",
        rule="R7",
    )


def _pairs(ours: list[NamePattern], theirs: list[NamePattern]) -> Iterator[tuple[NamePattern, NamePattern, SharedName]]:
    """Pairs that share a name: each of ours once at most, and no pair twice where both are the same patterns."""
    buckets: dict[tuple[str, ...], list[tuple[int, NamePattern]]] = defaultdict(list)
    for i, pattern in enumerate(theirs):
        buckets[pattern.bucket].append((i, pattern))
    left = MOST_COMPARISONS
    for i, pattern in enumerate(ours):
        for j, other in buckets.get(pattern.bucket, ()):
            if ours is theirs and j <= i:
                continue
            left -= 1
            shared = share_name(pattern, other) if left >= 0 else None
            if shared is not None:
                yield pattern, other, shared
                break


def _may_overlap(name: str, other: str) -> bool:
    """Whether one name begins with the other: parts of sets with other names are never named alike."""
    return name.startswith(f"{other}-") or other.startswith(f"{name}-")


def _inside(outline: SetOutline) -> Iterator[NamePattern]:
    """Patterns behind the number of a set's replica, which all share; equal names are reported as such elsewhere."""
    scaled_groups = {group.name for group in outline.groups if group.scale_config}
    for at, clique in {clique.name: (at, clique) for at, clique in outline.placed_cliques()}.values():
        if clique.name in outline.group_of:
            continue
        called, words = f"clique `{clique.name}`", _words(clique.name)
        yield NamePattern("PodClique", called, words, f"{at}.name")
        yield NamePattern("SubGroup", called, words, f"{at}.name")
        if clique.spec.auto_scaling_config and clique.name in scaled_groups:
            yield NamePattern("HorizontalPodAutoscaler", called, words, f"{at}.name")
            yield NamePattern("HorizontalPodAutoscaler", f"group `{clique.name}`", words)
    for group in {group.name: group for group in outline.groups}.values():
        if group.topology_constraint:
            yield NamePattern("SubGroup", f"group `{group.name}`", (*_words(group.name), max(1, group.replicas)))
        for member in dict.fromkeys(group.clique_names):
            words = (*_words(group.name), max(1, group.replicas), *_words(member))
            called = f"clique `{member}` of group `{group.name}`"
            yield NamePattern("PodClique", called, words, CLIQUES)
            yield NamePattern("SubGroup", called, words, CLIQUES)


def _outside(outline: SetOutline) -> Iterator[NamePattern]:
    """Patterns of whole names."""
    begin = (*_words(outline.name), max(1, outline.pcs.spec.replicas))
    yield NamePattern("PodGang", "the base gang", begin, TEMPLATE)
    for clique in outline.cliques:
        if clique.name not in outline.group_of:
            words = (*begin, *_words(clique.name))
            yield NamePattern("PodClique", f"clique `{clique.name}`", words)
            if clique.spec.auto_scaling_config:
                yield NamePattern("HorizontalPodAutoscaler", f"clique `{clique.name}`", words)
    for group in outline.groups:
        words, called = (*begin, *_words(group.name)), f"group `{group.name}`"
        yield NamePattern("PodCliqueScalingGroup", called, words)
        if group.scale_config:
            yield NamePattern("HorizontalPodAutoscaler", called, words)
        replicas = max(group.replicas, group.scale_config.max_replicas if group.scale_config else 0)
        yield NamePattern("PodGang", f"a scaled gang of {called}", (*words, max(0, replicas - group.min_available)))
        for member in group.clique_names:
            member_words = (*words, max(1, replicas), *_words(member))
            yield NamePattern("PodClique", f"clique `{member}` of {called}", member_words)


def _words(name: str) -> tuple[Word, ...]:
    return tuple(name.split("-"))


def _is_number(word: str) -> bool:
    """A number as replicas are counted: without leading zeros."""
    return word.isascii() and word.isdigit() and (word == "0" or word[0] != "0") and len(word) <= 10
