"""`python -m bench.traces NODES.csv SERVICES.csv`: published cluster data as a cluster and gangs, and a plan of it.

Nodes (`gpu_model,gpu_capacity_num,cpu_num,node_name`) stand in racks of 16 and blocks of 8 racks, in the order of the
file. Every service (`app_name`) is a PodGroup of two SubGroups: its CPU role (CN) and its GPU role (HN), each with all
its instances as the minimum, in one block if possible. The files name neither the memory nor the disks of the nodes:
cpu and gpu are what is placed.
"""

import csv
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import muster
from bench.model import Raw
from muster.model.snapshot import take
from muster.planning.cycle import plan
from muster.reporting.explain import sentence

RACK, BLOCK = 16, 8


def rows(path: str) -> Iterator[dict[str, str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def cluster(path: str) -> Iterator[Raw]:
    levels = [{"nodeLabel": "topology/block"}, {"nodeLabel": "topology/rack"}]
    meta = {"name": "datacenter"}
    yield {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": meta, "spec": {"levels": levels}}
    for i, row in enumerate(rows(path)):
        labels = {
            "topology/block": f"b{i // RACK // BLOCK:02}",
            "topology/rack": f"r{i // RACK:03}",
            "gpu": row["gpu_model"],
        }
        allocatable = {"nvidia.com/gpu": row["gpu_capacity_num"], "cpu": row["cpu_num"], "pods": "250"}
        node = {"name": f"node-{int(row['node_name']):05}", "labels": labels}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": node, "status": {"allocatable": allocatable}}


def services(path: str) -> Iterator[Raw]:
    apps: dict[str, dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(path):
        apps[row["app_name"].replace("_", "-")][row["role"].lower()].append(row)
    for app, roles in apps.items():
        parts = [{"name": role, "minMember": len(instances)} for role, instances in sorted(roles.items())]
        spec = {"topologyConstraint": {"preferredTopologyLevel": "block"}, "subGroups": parts}
        yield {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": app}, "spec": spec}
        for role, instances in roles.items():
            yield from (instance(app, role, row) for row in instances)


def instance(app: str, role: str, row: dict[str, str]) -> Raw:
    meta = {
        "name": row["instance_sn"].replace("_", "-"),
        "annotations": {"pod-group-name": app},
        "labels": {"kai.scheduler/subgroup-name": role},
    }
    asks = {"cpu": row["cpu_request"], "nvidia.com/gpu": row["gpu_request"]}
    requests = {name: amount for name, amount in asks.items() if float(amount or 0) > 0}
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "resources": {"requests": requests}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def main(nodes: str, apps: str) -> None:
    objects = muster.objects([*cluster(nodes), *services(apps)])
    start = time.process_time()
    snapshot = take(objects)
    taken = time.process_time()
    decided = plan(snapshot)
    done = time.process_time()
    counts = Counter(gang.verdict for gang in decided.gangs)
    together = sum("/" not in domain for gang in decided.gangs for domain in gang.domains.values() if domain)
    print(f"{len(snapshot.nodes):,} nodes, {len(decided.gangs)} gangs, {len(snapshot.class_of):,} pods")
    print(f"placed {counts['Scheduled']} gangs with {len(decided.bindings):,} pods, {together} of them in one block")
    for gang in decided.gangs:
        for refusal in gang.refusals:
            print(f"  {gang.verdict}: {gang.gang.name}: {sentence(refusal)}")
    rate = len(decided.bindings) / (done - taken)
    print(f"snapshot {taken - start:.2f} s, plan {done - taken:.2f} s, {rate:,.0f} pods/s")


if __name__ == "__main__":
    main(*sys.argv[1:3])
