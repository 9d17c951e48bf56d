"""Pods as lists bring them: cheaper to read, and the same pods."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import Container, Pod, PodSpec, Volume
from muster.api.decoding import decode
from muster.api.names import SKIP_GROUPING
from muster.kube.cache.interning import PodInterner
from muster.kube.listed_pod import ListedContainer, ListedPod, ListedSpec, ListedVolume
from muster.kube.stored_object import EncodedObject, decode_items, decode_page, encode_object

Raw = dict[str, Any]
QUANTITIES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", "500m", "8Gi"])
)
CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["main", "sidecar"])},
    optional={
        "resources": st.fixed_dictionaries({}, optional={"requests": QUANTITIES, "limits": QUANTITIES}),
        "ports": st.just([{"containerPort": 80, "hostPort": 80}]),
        "volumeMounts": st.just([{"name": "kube-api-access-x1"}]),
    },
)
SPECS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINERS, max_size=3)},
    optional={
        "nodeName": st.sampled_from(["", "a", "b"]),
        "schedulerName": st.sampled_from(["muster", "other"]),
        "priority": st.sampled_from([0, 7]),
        "tolerations": st.just([{"key": "gpu", "operator": "Exists"}]),
        "nodeSelector": st.just({"zone": "z1"}),
        "affinity": st.sampled_from([None, {"nodeAffinity": None}]),
        "volumes": st.lists(
            st.sampled_from(
                [
                    {"name": "token-1"},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
                    {"name": "e", "persistentVolumeClaim": None, "ephemeral": {"volumeClaimTemplate": {}}},
                ]
            ),
            max_size=2,
        ),
        "overhead": QUANTITIES,
        "hostNetwork": st.booleans(),
    },
)
PODS = st.builds(
    lambda name, spec, notes, phase: {
        "metadata": {"name": name, "namespace": "team", "uid": name, "labels": {"app": "x"}, "annotations": notes},
        "spec": spec,
        "status": {"phase": phase},
    },
    st.sampled_from(["p", "q", "r"]),
    SPECS,
    st.dictionaries(st.sampled_from(["pod-group-name", SKIP_GROUPING, "other"]), st.just("g"), max_size=3),
    st.sampled_from(["", "Pending", "Running"]),
)


def page(pods: list[Any]) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": pods})


@given(st.lists(PODS, max_size=5))
def test_pods_are_the_same_as_decoded_one_by_one(pods: list[Raw]) -> None:
    """The slow definition: decode the whole pod, and drop what no rule reads."""
    plain, listed = PodInterner(), PodInterner()
    stored, metadata = decode_page(page(pods), ("v1", "Pod"), ListedPod)
    expected = [plain.intern(decode(raw, Pod)[0]) for raw in pods]
    assert [listed.intern_listed(one.struct) for one in stored if isinstance(one.struct, ListedPod)] == expected
    assert [one.raw for one in stored] == [{**raw, "apiVersion": "v1", "kind": "Pod"} for raw in pods]
    assert [one.read(Pod) for one in stored] == [decode(raw, Pod)[0] for raw in pods]
    assert (metadata.resource_version, metadata.continue_) == ("7", "next")


def test_fields_are_those_of_a_pod() -> None:
    """A field that is missing here would be missing in every plan."""
    assert ListedSpec.__struct_encode_fields__ == PodSpec.__struct_encode_fields__
    assert ListedContainer.__struct_encode_fields__ == Container.__struct_encode_fields__
    assert ("name", *ListedVolume.__struct_encode_fields__) == Volume.__struct_encode_fields__
    assert ListedPod.__struct_encode_fields__ == Pod.__struct_encode_fields__


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "no"},
        {"containers": [{"name": "a", "resources": {"requests": {"cpu": "much"}}}]},
        {"tolerations": "all"},
        {"nodeName": 7},
        {"volumes": None},
        {"volumes": "no"},
        {"volumes": [{"name": "d", "persistentVolumeClaim": "c"}]},
    ],
)
def test_a_pod_with_misfits_is_read_as_before(spec: Raw) -> None:
    """Its page is decoded one by one, and the pod without what does not fit."""
    fine, odd = (
        {"metadata": {"name": name, "namespace": "team"}, "spec": own} for name, own in (("a", {}), ("b", spec))
    )
    stored, _ = decode_page(page([fine, odd]), ("v1", "Pod"), ListedPod)
    interner = PodInterner()
    for one, raw in zip(stored, (fine, odd), strict=True):
        listed = interner.intern_listed(one.struct) if isinstance(one.struct, ListedPod) else None
        assert (listed or interner.intern(one.read(Pod))) == interner.intern(decode(raw, Pod)[0])


@pytest.mark.parametrize("item", [{"metadata": {}}, {"spec": {}}, 7, None, {"metadata": {"name": "a"}, "spec": "no"}])
def test_a_page_with_something_else_is_no_list(item: Any) -> None:
    """Something else must not pass for an object, whichever way it is decoded."""
    for read in (decode_page, decode_items):
        with pytest.raises(msgspec.ValidationError):
            read(page([{"metadata": {"name": "a"}}, item]), ("v1", "Pod"), ListedPod)


def test_pods_of_one_template_share_their_spec_on_a_node() -> None:
    interner = PodInterner()
    raws = [
        {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "main"}], "volumes": [token]}}
        for name, node, token in (("p", "a", {"name": "t1"}), ("q", "a", {"name": "t2"}), ("r", "b", {"name": "t3"}))
    ]
    p, q, r = (interner.intern_listed(listed(raw)) for raw in raws)
    assert p is not None
    assert q is not None
    assert r is not None
    assert p.spec is q.spec
    assert p.spec is not r.spec
    assert p.spec.containers is r.spec.containers


def listed(raw: Raw) -> ListedPod:
    encoded: EncodedObject = encode_object(msgspec.json.encode(raw), ("v1", "Pod"), ListedPod)
    assert isinstance(encoded.struct, ListedPod)
    return encoded.struct
