"""The PodGroup of a PodGang, of the same name and owned by it (R3): a leaf a clique, a branch a constrained replica.

Rule 1: every level needs all its children, so that no rule warns about it. Rule 2: a PodGroup that exists keeps its
queue and all that the PodGang does not state. Rule 3: a PodGroup that another controller made is never written.
Rule 4: what was healthy and falls short is not released by the scheduler (S2): `terminationDelay` decides about it.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

from muster.api import names
from muster.api.fields import items, mapping, text, texts
from muster.api.names import DNS_LABEL, LONGEST_LABEL
from muster.api.resources import POD_CLIQUE_SETS, POD_GROUPS
from muster.grove.gangs.cliques import GangClique, labels_of
from muster.grove.gangs.gang_status import was_ready
from muster.grove.gangs.gates import GateHold
from muster.grove.gangs.scaled_groups import describe_followers
from muster.grove.naming import branch_name
from muster.workloads.operators.objects import child, removal, strings
from muster.workloads.types import Action, Children, Create, Raw, Update

NAME_TAKEN, INVALID_NAME = "PodGroupNameTaken", "InvalidName"
NEVER = "-1s"  # grace of a gang below its minimum
# what a PodGang decides
_STATED = ("subGroups", "topologyConstraint", "priorityClassName", "preemptibility", "stalenessGracePeriod")


def own_pod_group(gang: Raw, children: Children) -> Raw | None:
    """The PodGroup that a PodGang controls; None: there is none."""
    name = text(gang, "metadata.name")
    return next((raw for raw in children.of(gang, POD_GROUPS) if text(raw, "metadata.name") == name), None)


def is_bridged(pod_group: Raw) -> bool:
    """Whether a PodGroup was made here, and not by a backend of another operator."""
    return names.BRIDGED in texts(pod_group, "metadata.annotations")


def unbridgeable(gang: Raw, cliques: Iterable[GangClique], children: Children) -> GateHold | None:
    """Why no PodGroup can be made of a PodGang; None: one can."""
    for clique in cliques:
        if not DNS_LABEL.fullmatch(clique.name):
            says = f"PodClique `{clique.name[:80]}` cannot be a SubGroup: its name is no DNS label of at most"
            return GateHold(INVALID_NAME, f"{says} {LONGEST_LABEL} characters")
    namespace, name = text(gang, "metadata.namespace"), text(gang, "metadata.name")
    if own_pod_group(gang, children) is None and children.get(POD_GROUPS, namespace, name) is not None:
        return GateHold(NAME_TAKEN, f"PodGroup `{name}` exists and does not belong to this PodGang: rename one of them")
    return None


def pod_group_actions(
    gang: Raw, cliques: Sequence[GangClique], topology: str, children: Children, pool_label: str = names.NODE_POOL
) -> Iterator[Action]:
    """Creates the PodGroup, or brings it in step; removes it where every clique is scaled to zero."""
    stored = own_pod_group(gang, children)
    if stored is not None and not is_bridged(stored):
        return
    leaves = [clique for clique in cliques if clique.minimum or clique.live]
    if not leaves:
        yield from (removal(POD_GROUPS, raw) for raw in (stored,) if raw is not None)
        return
    desired = build_pod_group(gang, leaves, topology, children)
    if grace := _grace_period(gang, stored, leaves):
        desired["spec"]["stalenessGracePeriod"] = grace
    if stored is None:
        yield Create(POD_GROUPS, _in_pool(desired, gang, children, pool_label))
    elif patch := _difference(stored, desired, is_placed=all(leaf.is_scheduled for leaf in leaves)):
        yield Update(POD_GROUPS, text(gang, "metadata.namespace"), text(gang, "metadata.name"), patch)


def _grace_period(gang: Raw, stored: Raw | None, leaves: Sequence[GangClique]) -> str:
    """How long the scheduler leaves a gang below its minimum; empty: as long as any.

    It is written when a gang that was healthy as a whole falls short for the first time, and stays while one of its
    cliques that was healthy runs. One that started in part was never: what runs of it must not hold nodes (G5).
    """
    stated = text(stored, "spec.stalenessGracePeriod")
    if stated not in ("", NEVER):
        return stated
    is_short = not all(leaf.is_scheduled for leaf in leaves)
    is_healthy = any(leaf.was_healthy and leaf.scheduled for leaf in leaves)
    has_regressed = is_short and (was_ready(gang) or all(leaf.was_healthy for leaf in leaves))
    return NEVER if is_healthy and (stated or has_regressed) else ""


def build_pod_group(gang: Raw, leaves: Sequence[GangClique], topology: str, children: Children) -> Raw:
    """The PodGroup of these cliques."""
    owner = _set_of(gang, children)
    spec: Raw = {
        "queue": queue_of(owner),
        "priorityClassName": text(gang, "spec.priorityClassName"),
        "preemptibility": _label(names.PREEMPTIBILITY, gang, owner),
        "topologyConstraint": _constraint(gang, topology),
        "subGroups": [*_sub_groups(gang, leaves, topology)],
    }
    spec = {field: value for field, value in spec.items() if value}
    name = text(gang, "metadata.name")
    notes = {names.BRIDGED: "true"}
    if followers := describe_followers(gang, children):
        notes[names.SCALED_GANGS] = followers
    return child(gang, POD_GROUPS, name, spec, labels=labels_of(gang), annotations=notes)


def _in_pool(desired: Raw, gang: Raw, children: Children, pool_label: str) -> Raw:
    """With the label of the set's pool of nodes; a PodGroup that exists keeps its pool, as users may move it."""
    pool = labels_of(gang).get(pool_label, "") or _shared_label(_set_of(gang, children), pool_label)
    if pool:
        desired["metadata"]["labels"] = {**desired["metadata"]["labels"], pool_label: pool}
    return desired


def _difference(stored: Raw, desired: Raw, *, is_placed: bool) -> Raw:
    """The fields that the PodGang states and the PodGroup has not; what follows it counts until it is placed."""
    old, new = mapping(stored, "spec"), desired["spec"]
    patch: Raw = {}
    if spec := {field: new.get(field) for field in _STATED if (old.get(field) or None) != new.get(field)}:
        patch["spec"] = _replacing(old, spec)
    wanted, labels = texts(desired, "metadata.labels"), texts(stored, "metadata.labels")
    metadata: Raw = {}
    if missing := {name: value for name, value in wanted.items() if labels.get(name) != value}:
        metadata["labels"] = missing
    followers = texts(desired, "metadata.annotations").get(names.SCALED_GANGS)
    if not is_placed and texts(stored, "metadata.annotations").get(names.SCALED_GANGS) != followers:
        metadata["annotations"] = {names.SCALED_GANGS: followers}
    return {**patch, "metadata": metadata} if metadata else patch


def _replacing(old: Raw, spec: Raw) -> Raw:
    """A merge patch that removes levels of a constraint that are stated no more."""
    constraint = spec.get("topologyConstraint")
    if constraint is None:
        return spec
    return {**spec, "topologyConstraint": {**dict.fromkeys(mapping(old, "topologyConstraint")), **constraint}}


# the tree -----------------------------------------------------------------------------------------------------------


def _sub_groups(gang: Raw, leaves: Sequence[GangClique], topology: str) -> Iterator[Raw]:
    """Branches first, then leaves in the order of the PodGang."""
    parents: dict[str, str] = {}
    present = {leaf.name for leaf in leaves}
    taken = set(present)
    for config in items(gang, "spec.topologyConstraintGroupConfigs"):
        constraint, below = _constraint({"spec": config}, topology), _members(config, present, parents)
        if constraint and below:
            name = branch_name(text(config, "name"), taken)
            taken.add(name)
            parents |= dict.fromkeys(below, name)
            yield {"name": name, "minSubGroup": len(below), "topologyConstraint": constraint}
    for leaf in leaves:
        constraint = _constraint({"spec": leaf.entry}, topology)
        sub_group = {
            "name": leaf.name,
            "parent": parents.get(leaf.name),
            "minMember": max(1, leaf.minimum),
            "topologyConstraint": constraint,
        }
        yield {field: value for field, value in sub_group.items() if value}


def _members(config: Raw, present: Container[str], parents: Container[str]) -> list[str]:
    """The leaves of a branch; a leaf has one parent, the first that lists it."""
    names_below = dict.fromkeys(strings(config, "podGroupNames"))
    return [name for name in names_below if name in present and name not in parents]


def _constraint(raw: Raw, topology: str) -> Raw:
    """The constraint of a level; empty: it has none."""
    levels = {
        "requiredTopologyLevel": text(raw, "spec.topologyConstraint.packConstraint.required"),
        "preferredTopologyLevel": text(raw, "spec.topologyConstraint.packConstraint.preferred"),
    }
    stated = {field: level for field, level in levels.items() if level}
    return ({"topology": topology} if topology else {}) | stated if stated else {}


# what the PodCliqueSet says -----------------------------------------------------------------------------------------


def _set_of(gang: Raw, children: Children) -> Raw | None:
    """The PodCliqueSet of a gang; None: it is gone, or the gang has none."""
    owners = [text(owner, "name") for owner in items(gang, "metadata.ownerReferences") if _is_set(owner)]
    name = next(iter(owners), "") or labels_of(gang).get(names.PART_OF, "")
    return children.get(POD_CLIQUE_SETS, text(gang, "metadata.namespace"), name) if name else None


def _is_set(owner: Raw) -> bool:
    return text(owner, "kind") == POD_CLIQUE_SETS.kind


def queue_of(pcs: Raw | None) -> str:
    """The queue of a set: its label, else its annotation, else the one that its cliques share; empty: the default."""
    return _shared_label(pcs, names.QUEUE)


def _shared_label(pcs: Raw | None, name: str) -> str:
    if stated := _stated(mapping(pcs, "metadata"), name):
        return stated
    shared = {_stated(clique, name) for clique in items(pcs, "spec.template.cliques")} - {""}
    return shared.pop() if len(shared) == 1 else ""


def _stated(metadata: Raw, name: str) -> str:
    return texts(metadata, "labels").get(name, "") or texts(metadata, "annotations").get(name, "")


def _label(name: str, gang: Raw, owner: Raw | None) -> str:
    return labels_of(gang).get(name, "") or texts(owner, "metadata.labels").get(name, "")
