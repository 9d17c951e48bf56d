"""What the spec tests share: questions in one word, and the cluster around a gang."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from msgspec import Struct

import muster
from muster import Problem
from muster.api.codec import Document
from muster.conversion.older_formats import Conversion, Reading, convert
from muster.errors import Refused
from muster.model.gang.builder import CollectedGangs
from muster.model.gang.builder import collect_gangs as gather
from muster.model.gang.demand import leaf_demands
from muster.model.gang.gang import Gang
from muster.model.gang.types import Group, Leaf, Member, walk
from muster.model.roles import core, surplus
from tests.support.factories import Raw

# judging ------------------------------------------------------------------------------------------------------------


def problems(raw: Any, old: Any = None, around: Sequence[Raw] = ()) -> list[Problem]:
    """Everything that is said about an object, as an update of `old` and among the objects around it."""
    return muster.validate(raw, old, muster.objects(around) if around else None)


def errors(raw: Any, old: Any = None, around: Sequence[Raw] = ()) -> list[Problem]:
    """What refuses an object."""
    return [problem for problem in problems(raw, old, around) if problem.severity == "error"]


def warnings(raw: Any, old: Any = None, around: Sequence[Raw] = ()) -> list[Problem]:
    """What is said about an object without refusing it."""
    return [problem for problem in problems(raw, old, around) if problem.severity == "warning"]


def places(problems_found: Iterable[Problem], rule: str = "") -> list[str]:
    """Where the problems are; of one rule only, if it is named."""
    return sorted(problem.at for problem in problems_found if not rule or problem.rule == rule)


# converting ---------------------------------------------------------------------------------------------------------


def conversion(raw: Raw, reading: Reading = "auto") -> Conversion:
    """The object in the form of record, with what was changed."""
    return convert(Document("old.yaml", raw), reading)


def converted(raw: Raw, reading: Reading = "auto") -> Raw:
    """The spec in the form of record, which V1-V3 must accept."""
    done: Raw = conversion(raw, reading).raw
    assert errors(done) == []
    spec: Raw = done["spec"]
    return spec


def refusal(raw: Raw, reading: Reading = "auto") -> str:
    """Why an object cannot be converted."""
    with pytest.raises(Refused) as refused:
        conversion(raw, reading)
    return str(refused.value)


def named(spec: Raw, name: str) -> Raw:
    """The SubGroup of that name in a spec."""
    sub_group: Raw = next(part for part in spec["subGroups"] if part["name"] == name)
    return sub_group


# asking a gang ------------------------------------------------------------------------------------------------------


def gathered(*raws: Raw) -> CollectedGangs:
    """Every gang of these objects."""
    return gather(muster.objects(raws))


def find(gang: Gang, name: str) -> Group:
    """A group of the tree by its name."""
    return next(group for group in walk(gang.root) if group.name == name)


def members(gang: Gang) -> set[str]:
    """Every pod that some leaf has."""
    return {pod.name for group in walk(gang.root) if isinstance(group, Leaf) for pod in group.members}


def wanted(gang: Gang) -> dict[str, int]:
    """How many pods of which leaf are still to be placed."""
    return {want.leaf: want.pods for want in leaf_demands(gang.root)}


def candidates(gang: Gang, leaf: str = "") -> list[str]:
    """The pods that would be placed in a leaf, first come first."""
    return [pod.name for want in leaf_demands(gang.root) if want.leaf == leaf for pod in want.candidates]


def called(pods: Iterable[Member]) -> list[str]:
    return [pod.name for pod in pods]


def core_of(gang: Gang) -> list[str]:
    """The names of the core."""
    return called(core(gang.root))


def eviction_order(gang: Gang) -> list[list[str]]:
    """The names of what may leave, first to leave first."""
    return [called(unit) for unit in surplus(gang.root)]


# the command line ---------------------------------------------------------------------------------------------------


class Ran(Struct, frozen=True):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


def run(*words: str, stdin: str = "") -> Ran:
    """`muster` with these words, as a user would run it."""
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli.main", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
