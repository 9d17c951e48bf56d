"""Field sets and field managers, as values."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.embedded.patch.managed_fields import (
    field_set,
    field_values,
    from_fields_v1,
    merge_config,
    remove_fields,
    to_fields_v1,
)
from muster.embedded.patch.merge_keys import MergeKeys
from muster.embedded.patch.server_side_apply import FieldManager, apply_configuration, managers_of, record_update
from muster.kube.errors import ApiError

MERGE_KEYS = MergeKeys.of(None)
POD: Any = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "uid": "u", "labels": {"x": "y"}, "finalizers": ["f"]},
    "spec": {"containers": [{"name": "m", "image": "i"}], "tolerations": [{"key": "k"}], "nodeSelector": {}},
}


def test_field_sets_have_the_paths_of_kubernetes() -> None:
    assert to_fields_v1(field_set(POD, MERGE_KEYS)) == {
        "f:metadata": {"f:labels": {"f:x": {}}, "f:finalizers": {'v:"f"': {}}},
        "f:spec": {
            "f:containers": {'k:{"name":"m"}': {".": {}, "f:name": {}, "f:image": {}}},
            "f:tolerations": {},
            "f:nodeSelector": {},
        },
    }


def test_lists_of_custom_kinds_merge_by_their_schema() -> None:
    items = {"type": "object", "properties": {"k": {}, "v": {}}}
    listed = {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = {"properties": {"spec": {"properties": {"map": listed, "plain": {"items": items}}}}}
    raw = {"spec": {"map": [{"k": "a", "v": 1}], "plain": [{"k": "a"}]}}
    assert to_fields_v1(field_set(raw, MergeKeys.of(schema))) == {
        "f:spec": {"f:map": {'k:{"k":"a"}': {".": {}, "f:k": {}, "f:v": {}}}, "f:plain": {}}
    }
    merged = merge_config(raw, {"spec": {"map": [{"k": "b"}], "plain": []}}, MergeKeys.of(schema))
    assert merged == {"spec": {"map": [{"k": "a", "v": 1}, {"k": "b"}], "plain": []}}


def test_removed_fields_leave_no_empty_maps() -> None:
    raw = {"a": {"b": {"c": 1}}, "d": 2}
    removed = frozenset([("f:a", "f:b", "f:c")])
    assert remove_fields(raw, removed, frozenset(), MERGE_KEYS) == {"d": 2}
    assert remove_fields(raw, removed, frozenset([("f:a",)]), MERGE_KEYS) == {"a": {}, "d": 2}
    assert remove_fields(raw, frozenset([("f:a", "f:x")]), frozenset(), MERGE_KEYS) == raw


def test_an_update_takes_over_changed_fields() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    live = apply_configuration(
        config, config, MERGE_KEYS, FieldManager("one", "Apply", "", frozenset(), "t1"), force=False
    )
    new = {**live, "data": {"x": "2", "y": "1", "z": "1"}}
    fields = {
        manager.name: manager.fields
        for manager in managers_of(
            record_update(live, new, MERGE_KEYS, FieldManager("ed", "Update", "", frozenset(), "t2"))
        )
    }
    assert fields == {
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
def test_fields_v1_round_trips(config: Any) -> None:
    fields = field_set(config, MERGE_KEYS)
    assert frozenset(from_fields_v1(to_fields_v1(fields))) == fields


@settings(max_examples=300)
@given(_CONFIGS, _CONFIGS)
def test_the_only_manager_gets_what_it_applies(first: Any, second: Any) -> None:
    """No other manager owns a field: the result is the configuration itself."""

    def apply(live: Any, data: Any) -> Any:
        config = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, **data}
        manager = FieldManager("one", "Apply", "", frozenset(), "t")
        return apply_configuration(live or config, config, MERGE_KEYS, manager, force=False)

    live = apply(apply(None, first), second)
    left = {name: value for name, value in live.items() if name not in ("apiVersion", "kind", "metadata")}
    assert left == second


@settings(max_examples=300)
@given(_CONFIGS, _CONFIGS)
def test_an_apply_conflicts_or_sets_all_its_values(first: Any, second: Any) -> None:
    """Without force, values of other managers are never overwritten; with force, all values are set."""
    config_one, config_two = (
        {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}, **data} for data in (first, second)
    )
    live = apply_configuration(
        config_one, config_one, MERGE_KEYS, FieldManager("one", "Apply", "", frozenset(), "t"), force=False
    )
    one, two = field_values(config_one, MERGE_KEYS), field_values(config_two, MERGE_KEYS)
    differ = {path for path in one.keys() & two.keys() if one[path] != two[path]}
    manager = FieldManager("two", "Apply", "", frozenset(), "t")
    if differ:
        with pytest.raises(ApiError, match=f"Apply failed with {len(differ)} conflict"):
            apply_configuration(live, config_two, MERGE_KEYS, manager, force=False)
    forced = apply_configuration(live, config_two, MERGE_KEYS, manager, force=True)
    values = field_values(forced, MERGE_KEYS)
    assert all(value == {} or values[path] == value for path, value in two.items())


ITEMS = [{"name": name, "image": "i"} for name in ("a", "b", "c", "d", "e")]


@settings(max_examples=300)
@given(st.permutations(ITEMS), st.permutations(ITEMS), st.integers(0, 5), st.integers(0, 5))
def test_applied_items_come_in_the_order_of_the_configuration(
    live: list[Any], applied: list[Any], live_count: int, applied_count: int
) -> None:
    """Items of others keep their order among themselves; every item is there once."""
    live, applied = live[:live_count], applied[:applied_count]
    merged = merge_config({"containers": live}, {"containers": applied}, MERGE_KEYS)["containers"]
    assert [item for item in merged if item in applied] == applied
    others = [item for item in live if item not in applied]
    assert [item for item in merged if item not in applied] == others
    assert len(merged) == len(applied) + len(others)
