"""What is measured: subjects of any size, each beside a reference pass, so that figures of different machines compare.

Times are CPU times of this process without the collector, the best of a few runs: a busy machine changes them little.
"""

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from msgspec import Struct

import muster
from muster.api.codec import Document, to_yaml
from muster.api.core import Pod
from muster.api.decoding import decode
from muster.api.podgroup import PodGroup
from muster.api.reader import parse_documents
from muster.conversion.older_formats import convert
from muster.model.gang.builder import build_gang
from muster.model.gang.demand import leaf_demands
from muster.model.gang.gang import Gang
from muster.model.gang.state import standings
from muster.model.roles import roles

Raw = dict[str, Any]
Work = Callable[[], object]
SIZES = (10, 100, 1_000, 10_000)
MANY = (100, 1_000, 10_000)


class Subject(Struct, frozen=True):
    """Something to measure: `prepare` a size and get the work to time."""

    name: str
    prepare: Callable[[int], Work]
    sizes: tuple[int, ...] = SIZES
    parts: int = 1  # SubGroups, or what is counted, for each unit of size


class Point(Struct, frozen=True):
    """One size: how long it takes, and how long the reference takes."""

    size: int
    seconds: float
    reference: float

    @property
    def ratio(self) -> float:
        """How many times the reference."""
        return self.seconds / self.reference


# measuring ----------------------------------------------------------------------------------------------------------


def seconds(work: Work, runs: int = 3) -> float:
    """The best of a few runs; short ones are repeated until they can be measured."""
    repeat = 1
    gc.collect()
    gc.disable()
    try:
        while (once := _timed(work, repeat)) < 0.01 and repeat < 10_000:
            repeat *= 4
        return min([once, *(_timed(work, repeat) for _ in range(runs - 1))]) / repeat
    finally:
        gc.enable()


def _timed(work: Work, repeat: int) -> float:
    start = time.process_time()
    for _ in range(repeat):
        work()
    return time.process_time() - start


def reference(parts: int) -> Work:
    """A plain dict for each SubGroup: the least that anything that looks at each of them costs in Python."""
    return lambda: [{"name": f"g{i}", "parent": "", "minMember": 1} for i in range(parts)]


def measure(subject: Subject, sizes: tuple[int, ...] | None = None, runs: int = 3) -> list[Point]:
    """The curve of a subject."""
    return [
        Point(size, seconds(subject.prepare(size), runs), seconds(reference(size * subject.parts), runs))
        for size in sizes or subject.sizes
    ]


def growth(points: list[Point]) -> list[float]:
    """How many times longer each size takes than the one before."""
    return [later.seconds / earlier.seconds for earlier, later in pairwise(points)]


# manifests ----------------------------------------------------------------------------------------------------------


def flat(size: int, name: str = "gang") -> Raw:
    """SubGroups side by side, half of them needed."""
    groups = [{"name": f"worker-{i}", "minMember": 2} for i in range(size)]
    return _podgroup(name, {"minSubGroup": max(size // 2, 1), "subGroups": groups})


def chain(size: int, total: int = 0) -> Raw:
    """SubGroups one below the other; with a total, each also counts pods (M5)."""
    groups: list[Raw] = [
        {"name": "link-0"},
        *({"name": f"link-{i}", "parent": f"link-{i - 1}"} for i in range(1, size)),
    ]
    groups = [part | ({"minMember": total} if total else {}) for part in groups]
    groups[-1]["minMember"] = 2
    return _podgroup("gang", {"subGroups": groups})


def with_constraint_sets(size: int) -> Raw:
    """An older form: a constraint for each SubGroup, all of them in one place (D3)."""
    raw = flat(size)
    raw["spec"]["topologyConstraints"] = {
        "subGroups": {f"worker-{i}": {"requiredTopologyLevel": "rack"} for i in range(size)}
    }
    return raw


def pods(raw: Raw, all_placed: bool = False) -> list[Raw]:
    """Two for each leaf; every third waits, unless all are placed."""
    groups = raw["spec"]["subGroups"]
    parents = {part.get("parent") for part in groups}
    leaves = [part["name"] for part in groups if part["name"] not in parents]
    return [
        _member_pod(f"{leaf}-{i}", leaf, all_placed or (j + i) % 3 > 0)
        for j, leaf in enumerate(leaves)
        for i in range(2)
    ]


def _podgroup(name: str, spec: Raw) -> Raw:
    meta = {"name": name, "namespace": "team"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}


def _member_pod(name: str, leaf: str, bound: bool) -> Raw:
    labels, notes = {"kai.scheduler/subgroup-name": leaf}, {"pod-group-name": "gang"}
    meta = {"name": name, "namespace": "team", "labels": labels, "annotations": notes}
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec | ({"nodeName": "n"} if bound else {})}


def built(raw: Raw, members: list[Raw]) -> Gang:
    """From plain values to the tree."""
    return build_gang(decode(raw, PodGroup)[0], [decode(member, Pod)[0] for member in members])


# subjects -----------------------------------------------------------------------------------------------------------


def _each(number: int, work: Callable[[Raw], object]) -> Work:
    raws = [flat(10, f"gang-{i}") for i in range(number)]
    return lambda: [work(raw) for raw in raws]


def _building(manifest: Callable[[int], Raw]) -> Callable[[int], Work]:
    def prepare(size: int) -> Work:
        raw = manifest(size)
        members = pods(raw)
        return lambda: built(raw, members)

    return prepare


def _asking(
    manifest: Callable[[int], Raw], question: Callable[[Any], object], all_placed: bool = False
) -> Callable[[int], Work]:
    def prepare(size: int) -> Work:
        raw = manifest(size)
        root = built(raw, pods(raw, all_placed)).root
        return lambda: question(root)

    return prepare


def _judging(manifest: Callable[[int], Raw]) -> Callable[[int], Work]:
    def prepare(size: int) -> Work:
        raw = manifest(size)
        return lambda: muster.validate(raw)

    return prepare


def _judging_pods(size: int) -> Work:
    raw = flat(size)
    members = pods(raw)
    around = muster.objects([raw, *members])
    return lambda: [muster.validate(member, around=around) for member in members]


def _reading(size: int) -> Work:
    data = to_yaml([flat(size)]).encode()
    return lambda: parse_documents(data, "file.yaml")


def _converting(manifest: Callable[[int], Raw]) -> Callable[[int], Work]:
    def prepare(size: int) -> Work:
        document = Document("file.yaml", manifest(size))
        return lambda: convert(document)

    return prepare


def totals(size: int) -> Raw:
    """A chain in which every link counts pods too."""
    return chain(size, total=2)


VALIDATE = Subject("validate one PodGroup", _judging(flat))
BUILD = Subject("decode and build one gang, with pods", _building(flat))
ROLES = Subject("roles of a gang", _asking(flat, roles))
SUBJECTS = (
    Subject("validate PodGroups of 10 SubGroups", lambda n: _each(n, muster.validate), MANY, 10),
    Subject("decode and build PodGroups of 10 SubGroups", lambda n: _each(n, lambda raw: built(raw, [])), MANY, 10),
    Subject("read YAML of one PodGroup", _reading),
    VALIDATE,
    Subject("validate a chain", _judging(chain)),
    BUILD,
    Subject("decode and build a chain, with pods", _building(chain)),
    Subject("standings of a gang", _asking(flat, standings)),
    Subject("standings of a chain", _asking(chain, standings)),
    ROLES,
    Subject("roles of a chain", _asking(chain, roles)),
    Subject("leaf demands of a gang", _asking(flat, leaf_demands)),
    Subject("leaf demands of a chain", _asking(chain, leaf_demands)),
    Subject("roles of a chain with totals (M5)", _asking(totals, roles, all_placed=True)),
    Subject("leaf demands of a chain with totals (M5)", _asking(totals, leaf_demands)),
    Subject("convert, nothing to do", _converting(flat)),
    Subject("convert constraint sets (D3)", _converting(with_constraint_sets)),
    Subject("validate every pod of a gang", _judging_pods, parts=2),
)


# commands -----------------------------------------------------------------------------------------------------------


def wall(command: list[str], runs: int = 10) -> float:
    """The median time of a command, from start to end."""
    return statistics.median(_wall_once(command) for _ in range(runs))


def _wall_once(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


COMMANDS = {
    "`python -c pass`": [sys.executable, "-c", "pass"],
    "`import muster`": [sys.executable, "-c", "import muster"],
    "`muster --help`": [sys.executable, "-m", "muster.cli.main", "--help"],
    "`muster validate --help`": [sys.executable, "-m", "muster.cli.main", "validate", "--help"],
}
