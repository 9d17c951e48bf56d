"""PodGroups in older dialects (D1-D4), and what each of them means, straight from docs/reference/rules.md."""

from typing import Any

from muster.api.codec import Document
from muster.conversion.older_formats import Conversion, Reading, convert
from tests.property.trees import Dice, children, leaves, part, tree
from tests.support.factories import Raw

LEVELS = ("rack", "block", "zone", "topology.kubernetes.io/zone")
Meaning = set[tuple[frozenset[str], tuple[tuple[str, Any], ...]]]  # leaves that sit together, and how


def converted(raw: Raw, reading: Reading = "auto") -> Raw:
    """The form of record."""
    spec: Raw = conversion(raw, reading).raw
    return spec


def conversion(raw: Raw, reading: Reading = "auto") -> Conversion:
    """The form of record, and what was changed."""
    return convert(Document("here", raw), reading)


# minimums -----------------------------------------------------------------------------------------------------------


def counting_children(drawn: Dice) -> Raw:
    """D1: `minMember` on a branch counts children. Leaves may leave it out, or have a stored zero."""
    manifest = tree(drawn, "totals")
    for raw, below in _every_part(manifest):
        raw.pop("minMember", None)
        number = drawn.roll(below + 1) if below else drawn.roll(5)
        raw |= {"minMember": number} if number or (raw is not manifest["spec"] and not drawn.roll(3)) else {}
    return manifest


def counting_pods(drawn: Dice) -> Raw:
    """M5: `minMember` on a branch counts pods in all, no more than its children guarantee."""
    return _with_totals(drawn, tree(drawn, "totals"))


def with_both_fields(drawn: Dice) -> Raw:
    """D2: `minSubGroup` counts children and `minMember` beside it pods in all, no more than they guarantee."""
    return _with_totals(drawn, tree(drawn, "record"))


def asking_too_much(drawn: Dice) -> Raw:
    """D2 or M5 where at least one total is more than the children guarantee."""
    manifest = _with_totals(drawn, tree(drawn, drawn.one_of(("record", "totals")), least=1))
    branches = [raw for raw, below in _every_part(manifest) if below]
    branch = drawn.one_of(branches)
    branch["minMember"] = fewest(manifest, branch.get("name", "")) + 1 + drawn.roll(3)
    return manifest


def _with_totals(drawn: Dice, manifest: Raw) -> Raw:
    for raw, below in _every_part(manifest):
        if below:
            number = drawn.roll(fewest(manifest, raw.get("name", "")) + 1)
            raw.pop("minMember", None)
            raw |= {"minMember": number} if number else {}
    return manifest


def _every_part(manifest: Raw) -> list[tuple[Raw, int]]:
    """Every place with the number of its children, the PodGroup last."""
    names = [raw["name"] for raw in manifest["spec"].get("subGroups", ())]
    return [(part(manifest, name), len(children(manifest, name))) for name in (*names, "")]


def fewest(manifest: Raw, name: str = "") -> int:
    """The pods of the smallest placement in which enough children are satisfied at every level at or below."""
    own, below = part(manifest, name), children(manifest, name)
    if not below:
        return own.get("minMember") or 1
    costs = sorted(fewest(manifest, child) for child in below)
    return sum(costs[: own.get("minSubGroup") or len(below)])


def unguaranteed(manifest: Raw) -> list[tuple[int, int]]:
    """Totals above what the children guarantee: the number stated and the number guaranteed."""
    names = ["", *(raw["name"] for raw in manifest["spec"].get("subGroups", ()))]
    stated = [(part(manifest, name).get("minMember") or 0, name) for name in names if children(manifest, name)]
    return [(number, fewest(manifest, name)) for number, name in stated if number > fewest(manifest, name)]


def enough_children(manifest: Raw, have: dict[str, int], name: str = "") -> bool:
    """D1, word by word: `minMember` counts children on a branch and pods on a leaf."""
    own, below = part(manifest, name), children(manifest, name)
    if not below:
        return have[name] >= (own.get("minMember") or 1)
    return sum(enough_children(manifest, have, child) for child in below) >= (own.get("minMember") or len(below))


# constraints --------------------------------------------------------------------------------------------------------


def with_constraint_sets(drawn: Dice) -> Raw:
    """D3: a tree in the form of record, some constraints in place, and others in `spec.topologyConstraints`."""
    manifest = tree(drawn, "record", least=1)
    spec = manifest["spec"]
    names = [raw["name"] for raw in spec.get("subGroups", ())]
    for raw in (*spec.get("subGroups", ()), spec):
        raw |= {"topologyConstraint": _constraint(drawn)} if not drawn.roll(6) else {}
    stated: Raw = {}
    if drawn.roll(2):
        stated["subGroups"] = {name: _constraint(drawn) for name in names if not drawn.roll(4)}
    if drawn.roll(3):
        stated["subGroupSets"] = _sets(drawn, manifest, names)
    if drawn.roll(2):
        stated["global"] = _constraint(drawn)
    spec["topologyConstraints"] = stated
    return manifest


def _constraint(drawn: Dice) -> Raw:
    required = {"requiredTopologyLevel": drawn.one_of(LEVELS)}
    preferred = {"preferredTopologyLevel": drawn.one_of(LEVELS)}
    return (required, preferred, required | preferred)[drawn.roll(3)]


def with_topologies(drawn: Dice) -> Raw:
    """D3 where constraints name their Topology, or leave it to the nearest group above (T4)."""
    manifest = with_constraint_sets(drawn)
    spec = manifest["spec"]
    stated = spec["topologyConstraints"]
    held = [raw["topologyConstraint"] for raw in (spec, *spec["subGroups"]) if _own(raw)]
    held += [*stated.get("subGroups", {}).values(), *(entry["constraint"] for entry in stated.get("subGroupSets", ()))]
    for constraint in (*held, *([stated["global"]] if "global" in stated else ())):
        constraint |= drawn.one_of(({}, {"topology": "t1"}, {"topology": "t2"}))
    return manifest


def topology_of(manifest: Raw, name: str) -> str:
    """T4: a group's own Topology, or that of the nearest group above; empty: the only one of the cluster."""
    own = part(manifest, name)
    stated = (own.get("topologyConstraint") or {}).get("topology", "")
    return str(stated) if stated or not name else topology_of(manifest, own.get("parent") or "")


def _sets(drawn: Dice, manifest: Raw, names: list[str]) -> list[Raw]:
    """Disjoint sets: mostly siblings, sometimes any groups."""
    left, sets = set(names), []
    for _ in range(drawn.roll(4)):
        pool = children(manifest, drawn.one_of(["", *names])) if drawn.roll(4) else names
        chosen = [name for name in pool if name in left and drawn.roll(3)]
        left -= set(chosen)
        sets += [{"subGroups": chosen, "constraint": _constraint(drawn)}] if chosen else []
    return sets


def said(manifest: Raw) -> Meaning:
    """Every constraint of a D3 manifest, with the leaves whose pods it holds together."""
    spec = manifest["spec"]
    stated = spec.get("topologyConstraints", {})
    groups = [(raw["name"], raw["topologyConstraint"]) for raw in spec.get("subGroups", ()) if _own(raw)]
    groups += stated.get("subGroups", {}).items()
    pairs = [([name], constraint) for name, constraint in groups]
    pairs += [(entry["subGroups"], entry["constraint"]) for entry in stated.get("subGroupSets", ())]
    specific = {leaf for names, _ in pairs for name in names for leaf in leaves(manifest, name)}
    rest = set(leaves(manifest)) - specific
    pairs += [([""], spec["topologyConstraint"])] if _own(spec) else []
    pairs += [(sorted(rest), stated["global"])] if stated.get("global") and rest else []
    return {_meant(manifest, names, constraint) for names, constraint in pairs}


def _own(raw: Raw) -> bool:
    return bool(raw.get("topologyConstraint"))


def _meant(manifest: Raw, names: list[str], constraint: Raw) -> tuple[frozenset[str], tuple[tuple[str, Any], ...]]:
    return frozenset(leaf for name in names for leaf in leaves(manifest, name)), tuple(sorted(constraint.items()))


def expressible(manifest: Raw, wanted: frozenset[str]) -> bool:
    """D3: some group has exactly these leaves, or some siblings have, whose parent needs all its children."""
    names = [raw["name"] for raw in manifest["spec"].get("subGroups", ())]
    inside = {name for name in names if set(leaves(manifest, name)) <= wanted}
    tops = {name for name in inside if part(manifest, name).get("parent") not in inside}
    parents = {part(manifest, name).get("parent") or "" for name in tops}
    if wanted == set(leaves(manifest)) or len(tops) == 1:
        return True
    need = part(manifest, next(iter(parents))).get("minSubGroup")
    return len(parents) == 1 and need in (None, len(children(manifest, next(iter(parents)))))


def crossing(sets: list[frozenset[str]]) -> bool:
    """Whether two sets overlap without one holding the other: no tree has groups for both."""
    return any(one & other and not (one <= other or other <= one) for one in sets for other in sets)


# any of them --------------------------------------------------------------------------------------------------------


def spelt_otherwise(drawn: Dice) -> Raw:
    """D4: `subgroups`."""
    manifest = tree(drawn, "record")
    spec = manifest["spec"]
    spec |= {"subgroups": spec.pop("subGroups")} if "subGroups" in spec else {}
    return manifest


DIALECTS = (counting_children, counting_pods, with_both_fields, asking_too_much, with_constraint_sets, spelt_otherwise)


def older(drawn: Dice) -> Raw:
    """A PodGroup in any of the dialects."""
    return drawn.one_of(DIALECTS)(drawn)
