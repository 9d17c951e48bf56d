"""What whole sets become, as trees that people have read: gangs, cliques, pods, gates, order and constraints.

`MUSTER_GOLDEN=write` writes them again; read the difference before it is committed.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.api import names
from muster.api.resources import (
    AUTOSCALERS,
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUES,
    POD_GANGS,
    PODS,
    SERVICES,
)
from muster.workloads.types import Raw
from tests.support.grove import GroveCluster, clique, group, pod_clique_set

APPROVED = Path(__file__).parent / "approved" / "grove"
BINDING: Raw = {
    "metadata": {"name": "fabric"},
    "spec": {"levels": [{"domain": "zone", "key": "topology/zone"}, {"domain": "rack", "key": "topology/rack"}]},
}


def within(**pack: str) -> Raw:
    return {"topologyName": "fabric", "pack": pack}


SETS = {
    "single-clique": pod_clique_set(clique("server", 3, 2), name="simple", replicas=2),
    "disaggregated": pod_clique_set(
        clique("frontend", 2, 1, spec={"autoScalingConfig": {"maxReplicas": 4}}),
        clique("prefill-leader"),
        clique("prefill-worker", 3),
        clique("decode", 2),
        groups=[
            group("prefill", "prefill-leader", "prefill-worker", replicas=3, scaleConfig={"maxReplicas": 6}),
            group("decode-group", "decode", replicas=2, minimum=2),
        ],
        name="llm",
        priorityClassName="inference",
    ),
    "in-order": pod_clique_set(
        clique("router"),
        clique("leader"),
        clique("worker", 2),
        groups=[group("workers", "leader", "worker", replicas=2)],
        name="pipeline",
        cliqueStartupType="CliqueStartupTypeInOrder",
    ),
    "topology": pod_clique_set(
        clique("router", topologyConstraint=within(required="rack")),
        clique("leader"),
        clique("worker", 2),
        groups=[
            group("workers", "leader", "worker", replicas=3, minimum=2, topologyConstraint=within(preferred="rack"))
        ],
        name="packed",
        topologyConstraint=within(required="zone"),
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_a_set_becomes_what_was_approved(name: str) -> None:
    grove = GroveCluster()
    grove.apply(BINDING, CLUSTER_TOPOLOGY_BINDINGS)
    grove.apply(SETS[name])
    drawn = "\n".join(tree(grove)) + "\n"
    path = APPROVED / f"{name}.txt"
    if os.environ.get("MUSTER_GOLDEN") == "write":
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")


def tree(grove: GroveCluster) -> Iterator[str]:
    """Every object that is made, gang by gang."""
    for gang in grove.every(POD_GANGS):
        yield from _gang(grove, gang)
    for kind in (SERVICES, POD_CLIQUE_SCALING_GROUPS, AUTOSCALERS):
        for raw in grove.every(kind):
            yield f"{kind.kind} {raw['metadata']['name']}{_scale(raw['spec'])}"


def _gang(grove: GroveCluster, gang: Raw) -> Iterator[str]:
    metadata, spec = gang["metadata"], gang["spec"]
    base = metadata["labels"].get(names.BASE_POD_GANG)
    topology = metadata.get("annotations", {}).get(names.TOPOLOGY_NAME)
    yield " ".join(
        (
            f"PodGang {metadata['name']}",
            *((f"after {base}",) if base else ()),
            *((f"priority {spec['priorityClassName']}",) if "priorityClassName" in spec else ()),
            *((f"on {topology}",) if topology else ()),
            *_constraint(spec),
        )
    )
    for config in spec.get("topologyConstraintGroupConfigs", ()):
        yield " ".join((f"  together {config['name']}: {', '.join(config['podGroupNames'])}", *_constraint(config)))
    for one in spec["podgroups"]:
        yield from _clique(grove, one)


def _clique(grove: GroveCluster, one: Raw) -> Iterator[str]:
    raw = grove.named(POD_CLIQUES, one["name"])
    starts_after = raw["spec"]["startsAfter"]
    order = (f"starts after {', '.join(starts_after)}",) if starts_after else ()
    yield " ".join((f"  PodClique {one['name']} needs {one['minReplicas']}", *_constraint(one), *order))
    for pod in grove.of(raw, PODS):
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
        gated = f" behind {', '.join(gates)}" if gates else ""
        yield f"    Pod {pod['spec']['hostname']}.{pod['spec']['subdomain']}{gated}"


def _constraint(raw: Raw) -> Iterator[str]:
    for kind, key in raw.get("topologyConstraint", {}).get("packConstraint", {}).items():
        yield f"{kind} {key}"


def _scale(spec: Raw) -> str:
    if "maxReplicas" in spec:
        target = spec["scaleTargetRef"]
        return f" scales {target['kind']} {target['name']} from {spec['minReplicas']} to {spec['maxReplicas']}"
    return f" has {spec['replicas']}, needs {spec['minAvailable']}" if "replicas" in spec else ""
