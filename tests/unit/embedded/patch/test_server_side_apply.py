"""Fields and their owners, as values."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.resources import CONFIG_MAPS
from muster.embedded.patch.managed_fields import (
    field_set,
    from_fields_v1,
    merge_config,
    remove_field,
    to_fields_v1,
    value_at,
)
from muster.embedded.patch.merge_keys import MergeKeys
from muster.embedded.patch.server_side_apply import FieldManager, apply_configuration, managers_of, record_update
from muster.kube.errors import ApiError

SHAPE = MergeKeys.of(None)
POD: Any = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}, "finalizers": ["f"]},
    "spec": {"containers": [{"name": "m", "image": "i"}], "tolerations": [{"key": "k"}], "nodeSelector": {}},
}


def test_fields_are_told_apart_as_kubernetes_does() -> None:
    assert to_fields_v1(field_set(POD, SHAPE)) == {
        "f:metadata": {"f:labels": {"f:x": {}}, "f:finalizers": {'v:"f"': {}}},
        "f:spec": {
            "f:containers": {'k:{"name":"m"}': {".": {}, "f:name": {}, "f:image": {}}},
            "f:tolerations": {},
            "f:nodeSelector": {},
        },
    }


def test_lists_of_custom_kinds_go_by_their_schema() -> None:
    items = {"type": "object", "properties": {"k": {}, "v": {}}}
    listed = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = {"properties": {"spec": {"properties": {"map": listed, "plain": {"items": items}}}}}
    raw = {"spec": {"map": [{"k": "a", "v": 1}], "plain": [{"k": "a"}]}}
    assert to_fields_v1(field_set(raw, MergeKeys.of(schema))) == {
        "f:spec": {"f:map": {'k:{"k":"a"}': {".": {}, "f:k": {}, "f:v": {}}}, "f:plain": {}}
    }
    merged = merge_config(raw, {"spec": {"map": [{"k": "b"}], "plain": []}}, MergeKeys.of(schema))
    assert merged == {"spec": {"map": [{"k": "a", "v": 1}, {"k": "b"}], "plain": []}}


def test_what_is_taken_away_leaves_no_empty_maps() -> None:
    raw = {"a": {"b": {"c": 1}}, "d": 2}
    assert remove_field(raw, ("f:a", "f:b", "f:c"), frozenset()) == {"d": 2}
    assert remove_field(raw, ("f:a", "f:b", "f:c"), frozenset([("f:a",)])) == {"a": {}, "d": 2}
    assert remove_field(raw, ("f:a", "f:x"), frozenset()) == raw


def test_an_update_passes_ownership_on() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    live = apply_configuration(
        config, config, SHAPE, FieldManager("one", "Apply", "", frozenset(), "t1"), CONFIG_MAPS, force=False
    )
    new = {**live, "data": {"x": "2", "y": "1", "z": "1"}}
    found = {
        one.name: one.fields
        for one in managers_of(record_update(live, new, SHAPE, FieldManager("ed", "Update", "", frozenset(), "t2")))
    }
    assert found == {
        "one": {("f:data", "f:y")},
        "ed": {("f:data", "f:x"), ("f:data", "f:z")},
    }


_VALUES = st.recursive(
    st.integers(0, 2) | st.text("ab", max_size=1),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=1), inner, max_size=3),
    max_leaves=8,
)
_CONFIGS = st.dictionaries(st.text("pqr", min_size=1, max_size=1), _VALUES, max_size=3)


@given(_CONFIGS)
def test_fields_read_back_as_they_were_written(config: Any) -> None:
    found = field_set(config, SHAPE)
    assert frozenset(from_fields_v1(to_fields_v1(found))) == found


@settings(max_examples=300)
@given(_CONFIGS, _CONFIGS)
def test_one_manager_alone_always_gets_what_it_applies(first: Any, second: Any) -> None:
    """Whatever it applied before, nobody else owns anything: the outcome is the configuration itself."""

    def apply(live: Any, data: Any) -> Any:
        config = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, **data}
        manager = FieldManager("one", "Apply", "", frozenset(), "t")
        return apply_configuration(live or config, config, SHAPE, manager, CONFIG_MAPS, force=False)

    live = apply(apply(None, first), second)
    left = {name: value for name, value in live.items() if name not in ("apiVersion", "kind", "metadata")}
    assert left == second


@settings(max_examples=300)
@given(_CONFIGS, _CONFIGS)
def test_whoever_is_not_refused_gets_what_it_applies(first: Any, second: Any) -> None:
    """Without force an apply is refused, or all its values are there; values that differ are never overwritten."""
    one, two = ({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, **data} for data in (first, second))
    live = apply_configuration(
        one, one, SHAPE, FieldManager("one", "Apply", "", frozenset(), "t"), CONFIG_MAPS, force=False
    )
    differ = {
        path for path in field_set(one, SHAPE) & field_set(two, SHAPE) if value_at(one, path) != value_at(two, path)
    }
    manager = FieldManager("two", "Apply", "", frozenset(), "t")
    if differ:
        with pytest.raises(ApiError, match=f"Apply failed with {len(differ)} conflict"):
            apply_configuration(live, two, SHAPE, manager, CONFIG_MAPS, force=False)
    found = apply_configuration(live, two, SHAPE, manager, CONFIG_MAPS, force=True)
    assert all(value_at(two, path) in ({}, value_at(found, path)) for path in field_set(two, SHAPE))
