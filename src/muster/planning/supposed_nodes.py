"""What if about many nodes: those of a domain, and more of a kind that there is."""

from msgspec.structs import replace

from muster.api import names
from muster.api.core import Node
from muster.api.objects import Objects
from muster.errors import InputError
from muster.validation.fields import suggest
from muster.validation.topology import find_level, unknown_level


def nodes_in_domain(objects: Objects, topology: str, level: str, path: str) -> tuple[str, ...]:
    """The names of the nodes in a domain, such as `zone-1/rack-2`; InputError where there is none."""
    known = {each.metadata.name: each for each in objects.topologies}
    if topology not in known:
        raise InputError(f"drain: there is no topology `{topology[:253]}`", hint=suggest(topology, list(known)))
    place = find_level(known[topology], level)
    if place is None:
        raise InputError(f"drain: {unknown_level(known[topology], level)}")
    labels = [each.node_label for each in known[topology].spec.levels[: place + 1]]
    paths = {
        node.metadata.name: "/".join(node.metadata.labels.get(label, "") for label in labels) for node in objects.nodes
    }
    inside = tuple(sorted(name for name, own in paths.items() if own == path))
    if not inside:
        raise InputError(
            f"drain: no node is in `{path[:253]}`", hint=suggest(path, list(dict.fromkeys(paths.values())))
        )
    return inside


def copy_nodes(objects: Objects, like: str, count: int) -> Objects:
    """So many more nodes like one that there is; InputError where there is none."""
    known = {node.metadata.name: node for node in objects.nodes}
    if like not in known:
        raise InputError(f"add nodes: there is no node `{like[:253]}`", hint=suggest(like, list(known)))
    free = (f"{like}-copy-{number}" for number in range(1, len(known) + count + 1))
    chosen = [name for name in free if name not in known][:count]
    return Objects(nodes=tuple(_copy(known[like], name) for name in chosen))


def _copy(node: Node, name: str) -> Node:
    meta = node.metadata
    labels = {**meta.labels, names.HOSTNAME: name} if names.HOSTNAME in meta.labels else meta.labels
    return replace(
        node,
        metadata=replace(meta, name=name, uid="", resource_version="", labels=labels, creation_timestamp=None),
    )
