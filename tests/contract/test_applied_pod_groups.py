"""What the pod grouper relies on: PodGroups by server-side apply, and pods that join by a patch with a uid."""

from typing import Any

from muster.api.resources import POD_GROUPS, PODS
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import causes_of, is_another_object
from tests.contract.given import api_error_of, plain_pod, pod_group

APPLY: Any = "application/apply-patch+yaml"
GROUPER, EDITOR = "muster-grouper", "kubectl-edit"
OTHER_UID = "00000000-0000-0000-0000-000000000000"
SPEC: Raw = {
    "queue": "team",
    "subGroups": [
        {"name": "leader", "minMember": 1},
        {"name": "workers", "minMember": 7, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}},
    ],
}


async def apply(cluster: Cluster, namespace: str, spec: Raw, metadata: Raw | None = None) -> Raw:
    """The PodGroup `g` after the grouper applied a spec."""
    raw = pod_group(namespace, "g", **spec)
    raw["metadata"] |= metadata or {}
    return await cluster.patch(POD_GROUPS, namespace, "g", raw, APPLY, field_manager=GROUPER)


async def edit(cluster: Cluster, namespace: str, patch: Raw) -> Raw:
    return await cluster.patch(POD_GROUPS, namespace, "g", patch, field_manager=EDITOR)


def sub_groups(*counts: tuple[str, int]) -> list[Raw]:
    return [{"name": name, "minMember": count} for name, count in counts]


def names(raw: Raw) -> list[str]:
    return [group["name"] for group in raw["spec"].get("subGroups", ())]


def managers(raw: Raw) -> dict[str, Raw]:
    return {entry["manager"]: entry["fieldsV1"] for entry in raw["metadata"]["managedFields"]}


async def test_a_conflict_names_every_edited_field(cluster: Cluster, namespace: str) -> None:
    """The grouper parses these paths: a dot before each field, items by key, keys of labels as they are."""
    metadata = {"labels": {"team": "a"}, "annotations": {"kai.scheduler/topology": "t"}}
    await apply(cluster, namespace, SPEC, metadata)
    zone = {"topology": "t", "requiredTopologyLevel": "zone"}
    workers = {"name": "workers", "minMember": 5, "topologyConstraint": zone}
    edited = {"queue": "other", "subGroups": [SPEC["subGroups"][0], workers]}
    renamed = {"labels": {"team": "b"}, "annotations": {"kai.scheduler/topology": "u"}}
    await edit(cluster, namespace, {"metadata": renamed, "spec": edited})
    error = await api_error_of(apply(cluster, namespace, SPEC, metadata))
    assert (error.status, error.reason) == (409, "Conflict")
    assert {cause["reason"] for cause in causes_of(error)} == {"FieldManagerConflict"}
    assert [cause["field"] for cause in causes_of(error)] == [
        ".metadata.annotations.kai.scheduler/topology",
        ".metadata.labels.team",
        ".spec.queue",
        '.spec.subGroups[name="workers"].minMember',
        '.spec.subGroups[name="workers"].topologyConstraint.requiredTopologyLevel',
    ]
    message = 'conflict with "kubectl-edit" using scheduling.run.ai/v2alpha2'
    assert {cause["message"] for cause in causes_of(error)} == {message}
    assert error.message.startswith("Apply failed with 5 conflicts: conflicts with")


async def test_an_edited_field_that_is_no_longer_applied_keeps_its_value(cluster: Cluster, namespace: str) -> None:
    await apply(cluster, namespace, SPEC)
    await edit(cluster, namespace, {"spec": {"queue": "other"}})
    without = {field: value for field, value in SPEC.items() if field != "queue"}
    applied = await apply(cluster, namespace, without)
    assert applied["spec"]["queue"] == "other"
    assert managers(applied)[EDITOR] == {"f:spec": {"f:queue": {}}}


async def test_a_field_that_an_editor_removes_is_applied_again(cluster: Cluster, namespace: str) -> None:
    """An absent field has no manager, so nothing conflicts."""
    await apply(cluster, namespace, SPEC)
    await edit(cluster, namespace, {"spec": {"queue": None, "subGroups": SPEC["subGroups"][:1]}})
    applied = await apply(cluster, namespace, SPEC)
    assert applied["spec"]["queue"] == "team"
    assert names(applied) == ["leader", "workers"]


async def test_an_editor_and_the_grouper_may_agree(cluster: Cluster, namespace: str) -> None:
    """The value belongs to both: it stays when one of them drops it."""
    await apply(cluster, namespace, SPEC)
    await edit(cluster, namespace, {"spec": {"queue": "other"}})
    await apply(cluster, namespace, {**SPEC, "queue": "other"})
    assert (await apply(cluster, namespace, {"minMember": 1}))["spec"]["queue"] == "other"


async def test_items_that_are_no_longer_applied_are_removed(cluster: Cluster, namespace: str) -> None:
    await apply(cluster, namespace, SPEC)
    assert names(await apply(cluster, namespace, {"subGroups": SPEC["subGroups"][1:]})) == ["workers"]
    assert "subGroups" not in (await apply(cluster, namespace, {"minMember": 1}))["spec"]


async def test_an_item_that_is_no_longer_applied_takes_edits_of_it_along(cluster: Cluster, namespace: str) -> None:
    """Its editor manages a field of the item, but not the item."""
    await apply(cluster, namespace, SPEC)
    edited = [SPEC["subGroups"][0], {**SPEC["subGroups"][1], "minMember": 5}]
    await edit(cluster, namespace, {"spec": {"subGroups": edited}})
    applied = await apply(cluster, namespace, {"subGroups": SPEC["subGroups"][:1]})
    assert applied["spec"]["subGroups"] == SPEC["subGroups"][:1]
    assert EDITOR not in managers(applied)


async def test_an_item_of_an_editor_stays(cluster: Cluster, namespace: str) -> None:
    await apply(cluster, namespace, {"subGroups": sub_groups(("a", 1), ("b", 1))})
    await edit(cluster, namespace, {"spec": {"subGroups": sub_groups(("a", 1), ("mine", 1), ("b", 1))}})
    assert names(await apply(cluster, namespace, {"subGroups": sub_groups(("a", 1))})) == ["a", "mine"]


async def test_items_come_in_the_order_in_which_they_are_applied(cluster: Cluster, namespace: str) -> None:
    """The order of SubGroups counts: earlier ones come first."""
    orders = (["b", "c"], ["a", "b", "c"], ["c", "x", "b"], ["b", "c"])
    for order in orders:
        applied = await apply(cluster, namespace, {"subGroups": sub_groups(*((name, 1) for name in order))})
        assert names(applied) == order
    await edit(cluster, namespace, {"spec": {"subGroups": sub_groups(("b", 1), ("mine", 1), ("c", 1))}})
    applied = await apply(cluster, namespace, {"subGroups": sub_groups(("c", 1), ("new", 1), ("b", 1))})
    assert names(applied) == ["mine", "c", "new", "b"]


async def test_an_owner_reference_is_one_value(cluster: Cluster, namespace: str) -> None:
    """The manager that edits a part of it manages all of it; references to other owners are separate."""

    def owner(uid: str, **fields: Any) -> Raw:
        return {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, **fields}

    applied = await apply(cluster, namespace, SPEC, {"ownerReferences": [owner("u1")]})
    assert managers(applied)[GROUPER]["f:metadata"] == {"f:ownerReferences": {'k:{"uid":"u1"}': {}}}
    both = [owner("u1"), owner("u2")]
    await edit(cluster, namespace, {"metadata": {"ownerReferences": both}})
    assert (await apply(cluster, namespace, SPEC, {"ownerReferences": [owner("u1")]}))["metadata"][
        "ownerReferences"
    ] == both
    await edit(cluster, namespace, {"metadata": {"ownerReferences": [owner("u1", blockOwnerDeletion=True)]}})
    error = await api_error_of(apply(cluster, namespace, SPEC, {"ownerReferences": [owner("u1")]}))
    assert [cause["field"] for cause in causes_of(error)] == ['.metadata.ownerReferences[uid="u1"]']


async def test_the_status_writer_does_not_disturb_what_is_applied(cluster: Cluster, namespace: str) -> None:
    await apply(cluster, namespace, SPEC)
    await cluster.patch(POD_GROUPS, namespace, "g", {"status": {"phase": "Running"}}, subresource="status")
    applied = await apply(cluster, namespace, {**SPEC, "queue": "other"})
    assert (applied["spec"]["queue"], applied["status"]["phase"]) == ("other", "Running")


async def test_a_pod_joins_by_a_patch_with_its_uid(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(PODS, plain_pod(namespace, "a", {"app": "x"}))
    keys = {"annotations": {"pod-group-name": "g"}, "labels": {"kai.scheduler/subgroup-name": "workers"}}
    patch = {"metadata": {"uid": made["metadata"]["uid"], **keys}}
    joined = await cluster.patch(PODS, namespace, "a", patch, field_manager=GROUPER)
    assert joined["metadata"]["annotations"] == keys["annotations"]
    assert joined["metadata"]["labels"] == {"app": "x", **keys["labels"]}
    again = await cluster.patch(PODS, namespace, "a", patch, field_manager=GROUPER)
    assert again["metadata"]["resourceVersion"] == joined["metadata"]["resourceVersion"]


async def test_a_patch_with_another_uid_is_rejected(cluster: Cluster, namespace: str) -> None:
    await cluster.create(PODS, plain_pod(namespace, "a"))
    patch = {"metadata": {"uid": OTHER_UID, "annotations": {"pod-group-name": "g"}}}
    error = await api_error_of(cluster.patch(PODS, namespace, "a", patch))
    assert (error.status, error.reason) == (422, "Invalid")
    assert is_another_object(error)
    assert is_another_object(await api_error_of(cluster.patch(PODS, namespace, "missing", patch)))
    status = {"metadata": {"uid": OTHER_UID}, "status": {"phase": "Running"}}
    assert is_another_object(await api_error_of(cluster.patch(PODS, namespace, "a", status, subresource="status")))
    assert not (await cluster.get(PODS, namespace, "a"))["metadata"].get("annotations")


async def test_an_apply_with_a_uid_creates_nothing(cluster: Cluster, namespace: str) -> None:
    error = await api_error_of(apply(cluster, namespace, SPEC, {"uid": OTHER_UID}))
    assert (error.status, error.reason) == (409, "Conflict")
    assert not causes_of(error)
    await apply(cluster, namespace, SPEC)
    error = await api_error_of(apply(cluster, namespace, SPEC, {"uid": OTHER_UID}))
    assert error.status == 422
    assert is_another_object(error)
