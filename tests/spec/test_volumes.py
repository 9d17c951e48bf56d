"""Claims of pods (X5): volumes that are there, volumes that are made where a pod goes, and claims refused by name."""

from typing import Any

import muster
from tests.support.factories import Raw, node, pod, podgroup

SELECTED = "volume.kubernetes.io/selected-node"


def claim(name: str, volume: str = "", storage_class: str = "fast", selected: str = "") -> Raw:
    meta: Raw = {"name": name, "namespace": "team"}
    meta |= {"annotations": {SELECTED: selected}} if selected else {}
    spec = {"storageClassName": storage_class, **({"volumeName": volume} if volume else {})}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def storage_class(name: str = "fast", mode: str = "WaitForFirstConsumer", provisioner: str = "csi", **more: Any) -> Raw:
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return made | {"provisioner": provisioner, "volumeBindingMode": mode} | more


def zones(*names: str) -> list[Raw]:
    return [{"matchLabelExpressions": [{"key": "topology/zone", "values": list(names)}]}]


def using(name: str, claim_name: str) -> Raw:
    """A pod with a volume from this claim."""
    raw = pod(name, cpu=1)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    return raw | {"spec": raw["spec"] | {"volumes": [volume]}}


NODES = (node("n1", cpu=4, zone="a"), node("n2", cpu=4, zone="b"), node("n3", cpu=4, zone="b"))


def planned(*objects: Raw) -> tuple[dict[str, str], list[Raw]]:
    plan_data = muster.plan(muster.objects([*NODES, *objects])).to_dict()
    return {one["pod"]: one["node"] for one in plan_data["bindings"]}, plan_data["podGroups"][0]["reasons"]


def test_a_claim_that_waits_for_its_first_consumer_lets_its_pod_anywhere() -> None:
    """The volume is made where the pod goes."""
    seats, reasons = planned(podgroup(minMember=1), storage_class(), claim("data"), using("a", "data"))
    assert (len(seats), reasons) == (1, [])


def test_volumes_are_made_only_where_their_class_allows() -> None:
    """`allowedTopologies` is a filter of nodes: any term, and all labels of it."""
    kind = storage_class(allowedTopologies=zones("a"))
    group = podgroup(minMember=2)
    seats, _ = planned(group, kind, claim("one"), claim("two"), using("a", "one"), using("b", "two"))
    assert seats == {"a": "n1", "b": "n1"}
    nowhere, reasons = planned(
        group,
        storage_class(allowedTopologies=zones("c")),
        claim("one"),
        claim("two"),
        using("a", "one"),
        using("b", "two"),
    )
    assert (nowhere, reasons[0]["reason"]) == ({}, "NoNodeMatches")


def test_a_node_that_was_selected_holds_the_pod() -> None:
    """Restart safe: what was written on the claim before a crash decides after it."""
    seats, _ = planned(podgroup(minMember=1), storage_class(), claim("data", selected="n3"), using("a", "data"))
    assert seats == {"a": "n3"}


def refused(*objects: Raw) -> Raw:
    seats, reasons = planned(podgroup(minMember=1), *objects)
    assert seats == {}
    assert reasons[0]["reason"] == "VolumeNotBound"
    assert reasons[0]["details"]["claim"] == "data"
    return reasons[0]


def test_a_claim_that_is_not_bound_yet_is_named() -> None:
    """Of a class that binds at once, of one that is not there, or of none: there is nothing to decide, only to wait."""
    words = "no volume: pods of the gang use claim `data` of storage class `fast`, which is not bound yet"
    for kinds in ([storage_class(mode="Immediate")], []):
        assert refused(*kinds, claim("data"), using("a", "data"))["message"] == words


def test_a_claim_or_a_volume_or_a_node_that_is_not_there_is_named() -> None:
    """Which one, and what is missing."""
    assert "claim `data`, which does not exist" in refused(using("a", "data"))["message"]
    lost = refused(claim("data", "pv"), using("a", "data"))["message"]
    assert "bound to a volume that does not exist" in lost
    gone = refused(storage_class(), claim("data", selected="n9"), using("a", "data"))["message"]
    assert "whose volume is made on node `n9`, which does not exist" in gone


def test_what_is_not_supported_is_refused_by_name_with_the_way_out() -> None:
    """X5: no guesswork about volumes made by hand, or about one node for several pods."""
    local = storage_class(provisioner="kubernetes.io/no-provisioner")
    static = refused(local, claim("data"), using("a", "data"))
    assert static["details"]["why"] == "static"
    assert "`spec.volumeName`" in static["message"]
    shared = refused(storage_class(), claim("data"), using("a", "data"), using("b", "data"))
    assert shared["details"]["why"] == "shared"
    assert "have the claim bound before" in shared["message"]
