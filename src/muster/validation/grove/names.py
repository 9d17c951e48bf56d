"""Names of a PodCliqueSet, its cliques, roles and groups (R4): each is part of the names of pods and host names."""

import re
from collections.abc import Iterable, Iterator

from muster.api.grove.pod_clique_set import PodCliqueTemplate
from muster.api.names import DNS_LABEL
from muster.validation.grove.places import LABEL_HINT, SetOutline
from muster.validation.problem import Problem

LONGEST = 45  # of a set, a group and a clique together: the rest of a pod's 63 is for numbers, dashes and 5 letters
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


def judge(outline: SetOutline) -> Iterator[Problem]:
    """Every problem of a name."""
    yield from _set_name(outline)
    yield from _label_names("clique", ((f"{at}.name", clique.name) for at, clique in outline.placed_cliques()))
    yield from _label_names("scaling group", ((f"{at}.name", group.name) for at, group in outline.placed_groups()))
    yield from _roles(outline)
    yield from _lengths(outline)
    for at, clique in outline.placed_cliques():
        yield from _labels(at, clique)


def _set_name(outline: SetOutline) -> Iterator[Problem]:
    metadata = outline.pcs.metadata
    if not outline.name:
        yield Problem("metadata.name", "is missing", hint="every PodCliqueSet has a name", rule="R4")
    elif not DNS_LABEL.fullmatch(outline.name):
        says = f"`{(metadata.name or metadata.generate_name)[:80]}` cannot be part of the host names of pods"
        yield Problem("metadata.name", says, hint=LABEL_HINT, rule="R4")
    elif outline.name[0].isdigit():
        yield Problem(
            "metadata.name",
            "begins with a digit, which older API servers refuse in the name of a Service",
            hint="begin with a letter",
            severity="warning",
            rule="R4",
        )


def _label_names(called: str, named: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for at, name in named:
        if not name:
            yield Problem(at, "is missing", hint=f"every {called} has a name", rule="R4")
        elif not DNS_LABEL.fullmatch(name):
            says = f"`{name[:80]}` cannot be part of the host names of pods"
            yield Problem(at, says, hint=LABEL_HINT, rule="R4")
        elif first.setdefault(name, at) != at:
            says = f"`{name}` is the name of {first[name].removesuffix('.name')} already"
            yield Problem(at, says, hint=f"each {called} has a name of its own", rule="R4")


def _roles(outline: SetOutline) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for at, clique in outline.placed_cliques():
        role, place = clique.spec.role_name, f"{at}.spec.roleName"
        if not role:
            yield Problem(place, "is missing", hint=f"what its pods do, such as `{clique.name[:63]}`", rule="R4")
        elif first.setdefault(role, at) != at:
            says = f"`{role[:80]}` is the role of {first[role]} already"
            yield Problem(place, says, hint="each clique has a role of its own", rule="R4")


def _lengths(outline: SetOutline) -> Iterator[Problem]:
    """The names that a pod's name is made of leave space for the numbers between them."""
    for at, clique in outline.placed_cliques():
        group = outline.group_of.get(clique.name)
        parts = [outline.name, *([group.name] if group else []), clique.name]
        total = sum(map(len, parts))
        if total > LONGEST:
            together = " and ".join(f"`{part[:63]}`" for part in parts)
            yield Problem(
                f"{at}.name",
                f"{together} have {total} characters, too many for names of pods",
                hint=f"at most {LONGEST} together: shorten one of them",
                rule="R4",
            )


def _labels(at: str, clique: PodCliqueTemplate) -> Iterator[Problem]:
    for kind, values in (("labels", clique.labels), ("annotations", clique.annotations)):
        for key in values:
            if len(key) > 317 or not _LABEL_KEY.fullmatch(key):
                says = f"`{key[:80]}` is not a key that Kubernetes accepts"
                yield Problem(f"{at}.{kind}", says, hint="such as `example.com/team`", rule="R4")
    for key, value in clique.labels.items():
        if not _LABEL_VALUE.fullmatch(value):
            says = f"`{value[:80]}` is not a value that Kubernetes accepts"
            hint = "letters, digits, `-`, `_` and `.`, at most 63"
            yield Problem(f"{at}.labels[{key[:80]}]", says, hint=hint, rule="R4")
