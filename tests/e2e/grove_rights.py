"""The life of a PodCliqueSet that brings about every call of the operator, but for those of faults.

Rule: the operator is another process with rights of its own; everything here is done by the administrator.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from muster.api import names
from muster.api.resources import (
    AUTOSCALERS,
    CLUSTER_TOPOLOGY_BINDINGS,
    EVENTS,
    NAMESPACES,
    NODES,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    SERVICES,
    TOPOLOGIES,
    Resource,
)
from muster.embedded.kubelet.kubelet import Kubelets
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from tests.e2e.grove_site import KINDS, RACK, ZONE, GroveSite, clique, group, pod_clique_set
from tests.e2e.installed import gone, put, until
from tests.e2e.site import HABITS

SPACE = "rbac-grove"  # namespace, scheduler and binding
OWNERS = {  # whose finalizers a created object needs the right to update: the owner's deletion waits for it
    "pods": ("podcliques",),
    "podcliques": ("podcliquesets", "podcliquescalinggroups"),
    "podcliquescalinggroups": ("podcliquesets",),
    "podgangs": ("podcliquesets",),
    "podgroups": ("podgangs",),
    "topologies": ("clustertopologybindings",),
}
READ_AFTER_FAULTS = (  # whether an object that exists already, or an owner that is gone, is the one that was meant
    POD_CLIQUE_SETS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUES,
    POD_GANGS,
    POD_GROUPS,
    SERVICES,
    AUTOSCALERS,
    CLUSTER_TOPOLOGY_BINDINGS,
    TOPOLOGIES,
)


def a_set(queue: str) -> Raw:
    """Four pods: two of `a`, which scales, and a base and a scaled replica of a group, which start after it."""
    cliques = [clique("a", 2, 1, spec={"autoScalingConfig": scaling(3)}), clique("b", 1, 1)]
    template = {
        "cliqueStartupType": "CliqueStartupTypeInOrder",
        "topologyConstraint": {"topologyName": SPACE, "pack": {"required": "zone"}},
    }
    raw = pod_clique_set("w", cliques, [group("sg", ["b"], 2, 1, scaleConfig=scaling(4))], template=template)
    raw["metadata"]["labels"] = {names.QUEUE: queue}
    return raw


def scaling(most: int) -> Raw:
    target = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    return {"minReplicas": 1, "maxReplicas": most, "metrics": [metric]}


async def live(admin: Cluster, queue: str) -> None:
    """Created, bound, scaled, changed, updated and deleted, with all that belongs to it."""
    site = GroveSite(admin, SPACE)
    await put(admin, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    await site.add_nodes(8, {ZONE: "z", RACK: "r"})
    try:
        async with Kubelets(admin, timings=HABITS).running():
            await eventually(lambda: site.bind_topology(SPACE))
            await exists(admin)
            await eventually(lambda: site.submit(a_set(queue)))
            await site.until(lambda seen: seen.ready == 4)
            await repair(site)
            await scale(site)
            await update(site)
            await remove(site)
    finally:
        for name in site.nodes:
            await gone(admin, NODES, "", name)


async def eventually(write: Callable[[], Awaitable[object]]) -> None:
    """As soon as the webhook of the process answers."""

    async def is_accepted() -> bool:
        try:
            await write()
        except ApiError as error:
            if error.status not in (409, 500):
                raise
            return error.status == 409  # it was accepted before, without an answer
        return True

    await until(is_accepted)


async def exists(admin: Cluster) -> None:
    async def is_there() -> bool:
        with suppress(ApiError):
            return bool(await admin.get(TOPOLOGIES, "", SPACE))
        return False

    await until(is_there)


async def repair(site: GroveSite) -> None:
    """What people break of the parts comes back, and what they change of a binding reaches its Topology."""
    admin = site.cluster
    for resource, name in ((SERVICES, "w-0"), (AUTOSCALERS, "w-0-sg")):
        await admin.patch(resource, SPACE, name, {"metadata": {"labels": {names.COMPONENT: "another"}}})

        async def is_back(resource: Resource = resource, name: str = name) -> bool:
            return bool((await admin.get(resource, SPACE, name))["metadata"]["labels"][names.COMPONENT] != "another")

        await until(is_back)
    levels = [{"domain": "zone", "key": ZONE}, {"domain": "rack", "key": RACK}]
    await admin.patch(CLUSTER_TOPOLOGY_BINDINGS, "", SPACE, {"spec": {"levels": levels}})

    async def has_followed() -> bool:
        return len((await admin.get(TOPOLOGIES, "", SPACE))["spec"]["levels"]) == len(levels)

    await until(has_followed)


async def scale(site: GroveSite) -> None:
    """Group, set and clique, up and down; a clique also to nothing."""
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 3)
    await site.until(lambda seen: seen.ready == 5)
    await site.scale(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", 1)
    await site.until(lambda seen: seen.ready == 3 and set(seen[POD_GANGS]) == {"w-0"})
    await site.scale(POD_CLIQUE_SETS, "w", 2)
    await site.until(lambda seen: seen.ready == 7)
    await site.scale(POD_CLIQUE_SETS, "w", 1)
    await site.until(lambda seen: seen.ready == 3 and len(seen[SERVICES]) == 1)
    await site.scale(POD_CLIQUES, "w-0-a", 0)
    await site.until(lambda seen: seen.ready == len(seen.pods) == 1)
    await site.scale(POD_CLIQUES, "w-0-a", 2)
    await site.until(lambda seen: seen.ready == len(seen.pods) == 3)


async def update(site: GroveSite) -> None:
    """Pods of a new image, of a standalone clique and of a member."""
    for name in ("a", "b"):
        await site.change_image("w", name, "none:2")
    await site.until(lambda seen: seen.ready == 3 and all(map(is_new, seen.pods)))
    await site.until(lambda seen: bool(seen[POD_CLIQUE_SETS]["w"]["status"]["updateProgress"]["updateEndedAt"]))
    await site.until(lambda seen: "UpdateEnded" in {raw["reason"] for raw in seen[EVENTS].values()})


def is_new(pod: Raw) -> bool:
    return bool(pod["spec"]["containers"][0]["image"] == "none:2")


async def remove(site: GroveSite) -> None:
    """Nothing is left; no garbage collector runs here, so that the operator collects what is late."""
    await site.delete(POD_CLIQUE_SETS, "w")
    await site.until(lambda seen: not any(seen[kind] for kind in KINDS if kind.plural != "events"))
    await gone(site.cluster, CLUSTER_TOPOLOGY_BINDINGS, "", SPACE)

    async def is_gone() -> bool:
        try:
            await site.cluster.get(TOPOLOGIES, "", SPACE)
        except ApiError as error:
            return error.status == 404
        return False

    await until(is_gone)


async def read_after_faults(account: Cluster) -> None:
    """What only a fault brings about: a request that was not answered and is repeated, an owner that is gone."""
    for resource in READ_AFTER_FAULTS:
        with suppress(ApiError):  # 404; a 403 is found in the audit log
            await account.get(resource, SPACE if resource.namespaced else "", "none")
