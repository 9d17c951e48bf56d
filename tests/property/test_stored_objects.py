"""Objects that are decoded when they are read: as a struct in one pass, or as a plain value, with equal results."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from muster.api.core import Pod
from muster.api.decoding import decode, decode_json
from muster.api.meta import Wire
from muster.api.objects import WATCHED_KINDS
from muster.grouping.types import WorkloadPod
from muster.kube.cache.cache import Cache
from muster.kube.cache.reflector import ObjectUpdated
from muster.kube.stored_object import encode_object, identity, raw_of, read_object, scheduler_of, version_of
from tests.property.values import NASTY, cluster, mutants, podgroups
from tests.support.factories import Raw, stored_pod

STRUCTS = (*WATCHED_KINDS.values(), WorkloadPod)


def as_json(value: Any) -> bytes | None:
    """None: JSON cannot say it."""
    try:
        data = json.dumps(value, allow_nan=False).encode()
        msgspec.json.decode(data)
    except (ValueError, UnicodeEncodeError, msgspec.DecodeError):
        return None
    return data


@given(mutants([*cluster(), *podgroups(), stored_pod()]), st.sampled_from(STRUCTS))
def test_json_is_decoded_in_one_pass_as_in_two(raw: Raw, struct: type[Wire]) -> None:
    """The slow definition decodes to plain values first; misfits keep their defaults either way."""
    data = as_json(raw)
    if data is not None:
        assert decode_json(data, struct) == decode(msgspec.json.decode(data), struct)[0]


@pytest.mark.parametrize("value", [value for value in NASTY if as_json(value)], ids=repr)
@pytest.mark.parametrize("field", ["metadata.labels", "spec.containers", "spec.nodeName", "status", "spec.priority"])
def test_a_field_of_any_type_is_read_in_the_same_way(field: str, value: Any) -> None:
    raw = stored_pod()
    *path, last = field.split(".")
    part: Any = raw
    for name in path:
        part = part.setdefault(name, {})
    part[last] = value
    data = as_json(raw)
    assert data is not None
    assert decode_json(data, Pod) == decode(msgspec.json.decode(data), Pod)[0]


def test_an_encoded_object_is_the_object() -> None:
    raw = {"apiVersion": "v1", "kind": "Pod", **stored_pod("a", 7)}
    raw["spec"] = {**raw.get("spec", {}), "schedulerName": "muster"}
    encoded = encode_object(msgspec.json.encode({name: raw[name] for name in raw if name != "kind"}), ("v1", "Pod"))
    assert raw_of(encoded) == raw == raw_of(raw)
    assert raw_of(encoded) is raw_of(encoded)
    for question in (identity, version_of, scheduler_of):
        assert question(encoded) == question(raw)
    assert read_object(encoded, Pod) == read_object(raw, Pod)


@pytest.mark.parametrize(
    "value", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"name": ""}}, {"metadata": {"name": 7}}, [], 7]
)
def test_what_no_api_server_stores_is_no_object(value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        encode_object(msgspec.json.encode(value))


@pytest.mark.parametrize("spec", ["a", 7, ["a"]])
def test_a_spec_that_is_no_object_is_refused(spec: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        encode_object(msgspec.json.encode({"metadata": {"name": "a"}, "spec": spec}))


def test_the_cache_has_the_same_objects_however_they_come() -> None:
    """As plain values of the embedded cluster, or encoded as an API server sends them."""
    plain, encoded = Cache(), Cache()
    structs = {struct.__name__: struct for struct in WATCHED_KINDS.values()}
    for raw in (*cluster(), *podgroups()):
        struct = structs.get(raw["kind"])
        if struct is not None:
            for cache, stored in ((plain, raw), (encoded, encode_object(msgspec.json.encode(raw)))):
                cache.handle(struct, ObjectUpdated(stored))
    assert astuple(plain.objects) == astuple(encoded.objects)
    assert plain.version == encoded.version > 0
