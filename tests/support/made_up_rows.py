"""Rows of a made-up cluster for the dashboard: nodes, gangs, queues and cycles, from a seed."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from typing import Any

TOPOLOGY, GPU = "datacenter", "nvidia.com/gpu"
LEVELS = ("topology/zone", "topology/block", "topology/rack")
NODES_PER_RACK, RACKS_PER_BLOCK, BLOCKS_PER_ZONE = 16, 8, 8
GPUS, PODS_PER_NODE = 8, 10
SENTENCES = (
    ("NoRoom", "no room for `workers`: needs 16 pods, the cluster has room for 11, 5 nvidia.com/gpu short"),
    ("NoDomain", "no rack holds `decode`: needs 8 pods together, best is `zone-0/block-1/rack-3` with room for 6"),
    (
        "OverLimit",
        "queue `research` would pass its limit: 64 nvidia.com/gpu, of which 60 are held and 8 more are asked for",
    ),
)
Row = dict[str, Any]


class MadeUpCluster:
    """A cluster that is mostly full, and changes where it is told to."""

    def __init__(self, nodes: int = 64, gangs: int | None = None, seed: int = 7) -> None:
        self.random, self.boot, self.seq, self.cycle, self.oldest = Random(seed), "made-up", 1, 1200, 201
        self.now = datetime(2026, 3, 2, 12, tzinfo=UTC)
        self.gangs: dict[str, Row] = dict(islice(self._gangs(), gangs if gangs is not None else max(12, nodes // 12)))
        self.running = [key for key, row in self.gangs.items() if row["verdict"] == "Scheduled"]
        self.nodes: dict[str, Row] = {f"node-{i:05}": self._node(i) for i in range(nodes)}
        self.cycles = [self._cycle(number) for number in range(self.cycle, self.cycle - 100, -1)]

    # rows ---------------------------------------------------------------------------------------------------------

    def _gangs(self) -> Iterator[tuple[str, Row]]:
        i = 0
        while True:
            is_waiting = i % 9 == 4
            reason, message = SENTENCES[i % len(SENTENCES)] if is_waiting else ("", "")
            pods = self.random.choice((4, 8, 16, 33))
            created = self.now - timedelta(minutes=self.random.randrange(1, 6000))
            yield (
                f"team-{i % 5}/{('train', 'serve', 'tune')[i % 3]}-{i:03}",
                {
                    "queue": ("research", "inference", "batch")[i % 3],
                    "priority": (50, 100, 125)[i % 3],
                    "verdict": ("Infeasible" if i % 2 else "Waiting") if is_waiting else "Scheduled",
                    "reason": reason,
                    "message": message,
                    "placed": 0 if is_waiting else pods,
                    "pending": pods if is_waiting else 0,
                    "needs": "all 2 groups",
                    "satisfied": not is_waiting,
                    "core": 0 if is_waiting else pods - 1,
                    "extra": 0 if is_waiting else 1,
                    "pods": pods,
                    "created": created.isoformat(),
                    "preemptibility": "preemptible",
                    "position": 1 + i // 9 if is_waiting else 0,
                    "owner": {"kind": "PodCliqueSet", "namespace": f"team-{i % 5}", "name": f"set-{i // 4}"},
                    "domain": "",
                },
            )
            i += 1

    def _node(self, index: int) -> Row:
        rack, block, zone = (
            index // NODES_PER_RACK,
            index // (NODES_PER_RACK * RACKS_PER_BLOCK),
            index // (NODES_PER_RACK * RACKS_PER_BLOCK * BLOCKS_PER_ZONE),
        )
        domain = f"zone-{zone}/block-{block % BLOCKS_PER_ZONE}/rack-{rack % RACKS_PER_BLOCK}"
        flags = ["lost"] if index % 97 == 41 else ["cordoned"] if index % 61 == 17 else []
        return {
            "domains": {TOPOLOGY: domain},
            "allocatable": {GPU: GPUS, "cpu": 64_000, "memory": 512 << 30},
            "flags": flags,
            "used": [] if flags == ["lost"] else self._uses(index),
        }

    def _uses(self, index: int) -> list[Any]:
        """Two neighbouring gangs on each node, a few pods outside of gangs, and now and then another state."""
        first, second = (self.running[(index // 4 + shift) % len(self.running)] for shift in (0, 1))
        many = self.random.randrange(2, 6)
        few = self.random.randrange(0, GPUS - many + 1)
        state = self.random.choice(("core", "extra", "core", "core", "terminating"))
        uses = [[first, "core", _amounts(many)], *([[second, state, _amounts(few)]] if few else [])]
        uses += [["", "foreign", {"cpu": 500, "memory": 1 << 30}]]
        if many + few < GPUS and self.random.random() < 0.1:
            uses.append([second, "nominated", _amounts(1)])
        return sorted(uses, key=lambda use: use[:2])

    def _cycle(self, number: int) -> Row:
        gang, node = self.random.choice(self.running), f"node-{self.random.randrange(64):05}"
        act = {"pod": f"{gang}-0", "node": node, "gang": gang, "for": "", "to": "", "reason": ""}
        is_busy = number % 3 == 0
        return {
            "cycle": number,
            "at": (self.now - timedelta(seconds=self.cycle - number)).isoformat(),
            "milliseconds": round(self.random.lognormvariate(2.5, 0.5), 1),
            "steps": 1,
            "bound": [act] * is_busy,
            "evicted": [act | {"for": self.running[0], "reason": "Preempted"}] * (number % 12 == 0),
            "moved": [],
            "nominated": [],
            "released": [],
            "refused": [],
            "failures": 0,
            "counts": {"bound": int(is_busy), "evicted": int(number % 12 == 0)},
        }

    # answers ------------------------------------------------------------------------------------------------------

    def state(self) -> Row:
        """A whole state."""
        return {
            "boot": self.boot,
            "seq": self.seq,
            "cycle": self.cycle,
            "at": self.now.isoformat(),
            "leads": True,
            "resources": [
                {"name": GPU, "unit": ""},
                {"name": "cpu", "unit": "milli"},
                {"name": "memory", "unit": "bytes"},
            ],
            "topologies": {TOPOLOGY: list(LEVELS)},
            "nodes": self.nodes,
            "gangs": self.gangs,
            "queues": self._queues(),
            "waiting": {},
            "cycles": self.cycles,
        }

    def _queues(self) -> Row:
        capacity = GPUS * len(self.nodes)

        def queue(name: str, parent: str, part: float, limit: str = "unlimited") -> Row:
            amounts = {
                "quota": str(int(capacity * part)),
                "limit": limit,
                "overQuotaWeight": 1,
                "fairShare": str(int(capacity * part * 1.1)),
                "allocated": str(int(capacity * part * 0.9)),
                "allocatedNonPreemptible": str(int(capacity * part * 0.4)),
                "requested": str(int(capacity * part * 1.3)),
            }
            return {"name": name, "parent": parent, "priority": 100, "leaf": bool(parent), "resources": {GPU: amounts}}

        queues = [queue("all", "", 0.9), queue("research", "all", 0.4, str(int(capacity * 0.6)))]
        queues += [queue("inference", "all", 0.3), queue("batch", "all", 0.2)]
        return {"capacity": {GPU: str(capacity)}, "queues": queues, "outside": []}

    def cycles_before(self, before: int) -> list[Row]:
        """A page of older cycles."""
        return [self._cycle(number) for number in range(min(before, self.cycle) - 1, self.oldest - 1, -1)][:100]

    def gang_page(self, key: str) -> Row:
        """A gang with two groups."""
        row = self.gangs[key]
        names = [f"{key.partition('/')[2]}-{i}" for i in range(row["pods"])]
        half = len(names) // 2
        leaves = [self._leaf(f"workers-{i}", row, some) for i, some in enumerate((names[:half], names[half:]))]
        tree = leaves[0] | {"name": "", "counts": "groups", "need": 2, "children": leaves, "pods": []}
        said = [
            {"text": row["verdict"], "role": "good" if row["satisfied"] else "bad"},
            {"text": f"  {key}", "role": "name"},
        ]
        change = {
            "cycle": 1100,
            "at": self.now.isoformat(),
            "verdict": row["verdict"],
            "reason": row["reason"],
            "message": row["message"],
        }
        return {
            "key": key,
            "cycle": self.cycle,
            "row": row,
            "tree": tree,
            "data": {},
            "explain": [said],
            "helps": [] if row["satisfied"] else ["`minMember: 11` on `workers` instead of 16 fits now"],
            "events": [],
            "history": [change],
            "owner": row["owner"],
        }

    def _leaf(self, name: str, row: Row, pods: list[str]) -> Row:
        placed = len(pods) if row["satisfied"] else 0
        return {
            "name": name,
            "need": len(pods),
            "counts": "pods",
            "satisfied": row["satisfied"],
            "placed": placed,
            "succeeded": 0,
            "pending": len(pods) - placed,
            "gated": 0,
            "missing": len(pods) - placed,
            "part": "core" if row["satisfied"] else "needed",
            "domain": "zone-0/block-0/rack-0" if placed else "",
            "required": LEVELS[-1],
            "preferred": "",
            "topology": TOPOLOGY,
            "children": [],
            "pods": [
                {
                    "name": pod,
                    "node": "node-00000" if placed else "",
                    "state": "placed" if placed else "pending",
                    "role": "core" if placed else "",
                    "message": "",
                }
                for pod in pods
            ],
        }

    def node_page(self, name: str) -> Row:
        """A node with its pods."""
        row = self.nodes[name]
        pods = [
            {
                "namespace": gang.partition("/")[0] or "kube-system",
                "name": f"{gang.partition('/')[2] or 'agent'}-{i}",
                "gang": gang,
                "subGroup": "",
                "state": state,
                "requests": {GPU: "1"},
            }
            for gang, state, amounts in row["used"]
            for i in range(amounts.get(GPU, 1))
        ]
        labels = dict(zip(LEVELS, row["domains"][TOPOLOGY].split("/"), strict=False))
        return {
            "name": name,
            "cycle": self.cycle,
            "row": row,
            "labels": labels,
            "taints": [],
            "conditions": [{"type": "Ready", "status": "True"}],
            "pods": pods,
        }

    def what_if(self, hypothesis: Row) -> Row:
        """The node is empty afterwards, and its first gang waits."""
        drained = [name for name in hypothesis.get("drain", []) if name in self.nodes]
        key = self.running[0]
        namespace, _, name = key.partition("/")
        plan: Row = {
            "podGroups": [{"namespace": namespace, "name": name, "verdict": "Scheduled"}],
            "bindings": [],
            "nominations": [],
            "evictions": [],
        }
        after = plan | {"podGroups": [plan["podGroups"][0] | {"verdict": "Waiting"}]}
        standing = {"verdict": "Scheduled", "placed": 8, "pending": 0, "domain": "zone-0"}
        difference = {
            "namespace": namespace,
            "name": name,
            "change": "Worse",
            "before": standing,
            "after": standing | {"verdict": "Waiting", "placed": 0, "pending": 8, "domain": ""},
            "elsewhere": 0,
            "domains": [],
        }
        return {
            "changes": [f"node `{node}` is drained: 8 pods of gangs wait again" for node in drained],
            "before": plan,
            "after": after,
            "differences": {"podGroups": [difference], "unchanged": len(self.gangs) - 1, "pods": {}},
            "text": [[{"text": "what if: ", "role": "dim"}, {"text": "node is drained", "role": "name"}]],
            "map": {
                "before": {node: self.nodes[node] for node in drained},
                "after": {node: self.nodes[node] | {"used": [], "flags": ["cordoned"]} for node in drained},
            },
        }

    # changes ------------------------------------------------------------------------------------------------------

    def number(self, change: Row) -> Row:
        """The change with its place."""
        self.seq += 1
        return {
            "seq": self.seq,
            "cycle": self.cycle,
            "at": self.now.isoformat(),
            "nodes": {},
            "gangs": {},
            "cycles": [],
        } | change

    def change_nodes(self, many: int) -> Row:
        """A cycle in which some nodes changed."""
        self.cycle += 1
        self.now += timedelta(seconds=0.25)
        names = self.random.sample(sorted(self.nodes), min(many, len(self.nodes)))
        for name in names:
            self.nodes[name] = self.nodes[name] | {"used": self._uses(int(name[5:])), "flags": []}
        row = self._cycle(self.cycle)
        self.cycles = [row, *self.cycles[:99]]
        return {"nodes": {name: self.nodes[name] for name in names}, "cycles": [row]}


def _amounts(gpus: int) -> dict[str, int]:
    """What pods with so many GPUs request."""
    return {GPU: gpus, "cpu": 6_000 * gpus, "memory": (48 * gpus) << 30}
