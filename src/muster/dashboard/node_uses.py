"""Which pods use which node, kept up to date: only nodes whose pods, roles or facts changed are made again.

Equal to `reporting.dashboard.nodes.node_rows` of the same objects and plan.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from muster.api.core import Pod
from muster.api.objects import key
from muster.dashboard.slices import in_slices
from muster.kube.cache.cache import Cache
from muster.model.gang.gang import Gang
from muster.model.gang.pod_state import holds_resources
from muster.planning.decision import Binding
from muster.reporting.dashboard.nodes import (
    Levels,
    NodeFacts,
    PodUse,
    RecordedNode,
    gang_roles,
    levels_of,
    node_facts,
    node_record,
    pod_use,
    use_state,
)
from muster.reporting.dashboard.rows import UseState
from muster.validation.shard import Shard

MOST_REQUESTS = 10_000  # different ones that are stored once; beyond it the table starts again
MOST_NAMESPACES = 50_000
NO_ROLES: Mapping[str, UseState] = {}


class NodeUses:
    """The pods on every node of the cache, by the gangs and roles of the last plan."""

    def __init__(self, cache: Cache, schedulers: Collection[str], shard: Shard | None = None) -> None:
        self._cache, self._schedulers, self._shard = cache, schedulers, shard
        self._uses: dict[str, PodUse] = {}  # of placed pods
        self._on_node: dict[str, dict[str, PodUse]] = {}
        self._nominated: dict[str, str] = {}  # pod -> node
        self._nominated_on: dict[str, set[str]] = {}  # node -> pods
        self._facts: dict[str, NodeFacts] = {}
        self._roles: dict[str, dict[str, UseState]] = {}  # by gang, of its placed pods
        self._requests: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}
        self._changed_pods: dict[str, None] = {}
        self._changed_nodes: dict[str, None] = {}
        self._stale: set[str] = set()  # nodes whose records are to be made again
        self._has_levels_changed = True
        self.facts_version = 0  # how often a node said something else of itself
        self.levels: Levels = {}
        self._path_roots: frozenset[str] | None = None  # None: to be collected again
        self.namespaces: dict[str, None] = {}  # of pods and gangs that were seen

    # changes

    def pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod of the cache is new, differs, or is gone."""
        pod = after or before
        if pod is not None:
            self._changed_pods[key(pod.metadata)] = None

    def node_changed(self, name: str) -> None:
        """A node of the cache is new, differs, or is gone."""
        self._changed_nodes[name] = None

    def all_changed(self) -> None:
        """Every node and pod of the cache may differ from what is known."""
        objects = self._cache.objects
        self._changed_nodes.update((node.metadata.name, None) for node in objects.nodes)
        self._changed_nodes.update(dict.fromkeys(self._facts))
        self._changed_pods.update((key(pod.metadata), None) for pod in objects.pods)
        self._changed_pods.update(dict.fromkeys(self._uses))
        self._stale.update(self._facts)
        self._has_levels_changed = True

    def topologies_changed(self) -> None:
        """Some Topology of the cache is new, differs, or is gone."""
        self._has_levels_changed = True

    def gang_changed(self, name: str, gang: Gang | None) -> None:
        """A plan has this gang as another value; None: it is gone."""
        before, after = self._roles.pop(name, None), None if gang is None else gang_roles(gang)
        if after is not None:
            self._roles[name] = after
            self._note_namespace(name.partition("/")[0])
        if (before is None) is not (after is None):
            self._changed_pods.update((key(pod.metadata), None) for pod in self._cache.pods_of(name))
        old, new = before or NO_ROLES, after or NO_ROLES
        changed = (pod for pod in {**old, **new} if old.get(pod) != new.get(pod))
        self._stale.update(use.node for pod in changed if (use := self._uses.get(pod)))

    def set_nominations(self, nominations: Iterable[Binding]) -> None:
        """The nominations of the last plan."""
        after = {nomination.key: nomination.node for nomination in nominations}
        changed = {*after.items()} ^ {*self._nominated.items()}
        if changed:
            self._stale.update(node for _, node in changed)
            self._nominated, self._nominated_on = after, {}
            for pod, node in after.items():
                self._nominated_on.setdefault(node, set()).add(pod)

    # records

    @property
    def facts(self) -> Mapping[str, NodeFacts]:
        """What every node says of itself."""
        return self._facts

    @property
    def path_roots(self) -> frozenset[str]:
        """What labels of levels and names of domains begin with."""
        if self._path_roots is None:
            paths = {path for facts in self._facts.values() for path in facts.domains.values()}
            labels = {label for labels in self.levels.values() for label in labels}
            self._path_roots = frozenset(path.partition("/")[0] for path in paths | labels)
        return self._path_roots

    async def make_records(self) -> dict[str, RecordedNode | None]:
        """The nodes that may have changed, as they are now; None: gone."""
        self._update_levels()
        nodes, self._changed_nodes = self._changed_nodes, {}
        async for name in in_slices(nodes):
            self._update_facts(name)
        pods, self._changed_pods = self._changed_pods, {}
        async for name in in_slices(pods):
            self._update_pod(name)
        stale, self._stale = self._stale, set()
        return {name: self._make_record(name) async for name in in_slices(sorted(stale))}

    def _update_levels(self) -> None:
        if not self._has_levels_changed:
            return
        self._has_levels_changed = False
        levels = levels_of(self._cache.objects.topologies)
        if levels != self.levels:
            self.levels, self._path_roots = levels, None
            self._changed_nodes.update(dict.fromkeys(self._facts))

    def _update_facts(self, name: str) -> None:
        node = self._cache.node(name)
        if node is None or not (self._shard is None or self._shard.has(node.metadata.labels)):
            self._facts.pop(name, None)
            self._stale.add(name)
            self.facts_version += 1
            return
        facts = node_facts(node, self.levels)
        before = self._facts.get(name)
        if before != facts:
            self._facts[name] = facts
            if before is None or before.domains != facts.domains:
                self._path_roots = None
            self._stale.add(name)
            self.facts_version += 1

    def _update_pod(self, name: str) -> None:
        pod, before = self._cache.pod(name), self._uses.get(name)
        self._note_namespace(name.partition("/")[0])
        if name in self._nominated:
            self._stale.add(self._nominated[name])
        is_placed = pod is not None and bool(pod.spec.node_name) and holds_resources(pod)
        after = self._use(pod, pod.spec.node_name) if pod is not None and is_placed else None
        if after == before:
            return
        if before is not None:
            self._remove(before)
        if after is not None:
            self._uses[name] = after
            self._on_node.setdefault(after.node, {})[name] = after
            self._stale.add(after.node)

    def _remove(self, use: PodUse) -> None:
        del self._uses[use.pod]
        on_node = self._on_node[use.node]
        del on_node[use.pod]
        if not on_node:
            del self._on_node[use.node]
        self._stale.add(use.node)

    def _note_namespace(self, name: str) -> None:
        self.namespaces[name] = None
        if len(self.namespaces) > MOST_NAMESPACES:
            del self.namespaces[next(iter(self.namespaces))]

    def _use(self, pod: Pod, node: str) -> PodUse:
        return pod_use(pod, node, self._roles, self._schedulers, self._shared)

    def _shared(self, requests: Mapping[str, int]) -> Mapping[str, int]:
        """Equal requests are stored once."""
        if len(self._requests) > MOST_REQUESTS:
            self._requests = {}
        return self._requests.setdefault(tuple(sorted(requests.items())), requests)

    def _make_record(self, name: str) -> RecordedNode | None:
        facts = self._facts.get(name)
        return None if facts is None else node_record(facts, self._uses_of(name))

    def _uses_of(self, node: str) -> Iterator[tuple[PodUse, UseState]]:
        for use in self._on_node.get(node, {}).values():
            yield use, use_state(use, self._roles.get(use.gang, NO_ROLES))
        for name in self._nominated_on.get(node, ()):
            pod = self._cache.pod(name)
            if pod is not None and not pod.spec.node_name:
                yield self._use(pod, node), "nominated"
