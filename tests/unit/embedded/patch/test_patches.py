"""JSON merge patch, JSON patch and strategic merge patch, on plain values."""

from typing import Any

import pytest

from muster.embedded.patch.patches import apply_patch, json_patch, merge_patch
from muster.embedded.patch.strategic_merge import strategic_merge
from muster.kube.errors import ApiError


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [  # the table of RFC 7386
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_the_rfc(value: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(value, patch) == expected


@pytest.mark.parametrize(
    ("value", "operations", "expected"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/b"}], {"a": 1}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a/b": {"m~n": 1}}, [{"op": "test", "path": "/a~1b/m~0n", "value": 1}], {"a/b": {"m~n": 1}}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)
def test_json_patches_follow_the_rfc(value: Any, operations: Any, expected: Any) -> None:
    before = repr(value)
    assert json_patch(value, operations) == expected
    assert repr(value) == before


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([{"op": "remove", "path": "/none"}], 422),
        ([{"op": "replace", "path": "/none", "value": 1}], 422),
        ([{"op": "add", "path": "/list/9", "value": 1}], 422),
        ([{"op": "add", "path": "/list/x", "value": 1}], 422),
        ([{"op": "add", "path": "/a/b", "value": 1}], 422),
        ([{"op": "add", "path": "/a"}], 422),
        ([{"op": "add", "path": "a", "value": 1}], 422),
        ([{"op": "move", "path": "/b"}], 422),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "explode", "path": "/a"}], 400),
        ([{"op": "add"}], 400),
        ({"op": "add"}, 400),
        (["add"], 400),
    ],
)
def test_json_patches_that_do_not_apply_are_errors(operations: Any, status: int) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1, "list": [1]}, operations)
    assert caught.value.status == status


CONTAINERS = {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        (CONTAINERS, {"containers": [{"name": "b", "image": "b:2"}]}, {"containers": [
            {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}),
        (CONTAINERS, {"containers": [{"name": "c"}]}, {"containers": [{"name": "c"}, *CONTAINERS["containers"]]}),
        (CONTAINERS, {"containers": [{"name": "a", "$patch": "delete"}]}, {"containers": [
            {"name": "b", "image": "b:1"}]}),
        (CONTAINERS, {"containers": [{"$patch": "replace"}, {"name": "c"}]}, {"containers": [{"name": "c"}]}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["c", "d"], "d": 3}}, {"a": {"c": 2, "d": 3}}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"finalizers": ["a"]}, {"finalizers": ["b"]}, {"finalizers": ["b", "a"]}),
        ({"finalizers": ["a"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"env": [{"name": "a"}, {"name": "b"}]}, {"$setElementOrder/env": [{"name": "b"}, {"name": "a"}]},
         {"env": [{"name": "b"}, {"name": "a"}]}),
        ({"ports": [{"port": 1, "name": "x"}]}, {"ports": [{"port": 1, "name": "y"}]}, {"ports": [
            {"port": 1, "name": "y"}]}),
        ({}, {"conditions": [{"type": "Ready", "status": "True"}]}, {"conditions": [
            {"type": "Ready", "status": "True"}]}),
        ({"taints": [{"key": "a", "effect": "x"}]}, {"taints": [{"key": "b", "effect": "x"}]}, {"taints": [
            {"key": "b", "effect": "x"}]}),
    ],
)  # fmt: skip
def test_strategic_merge_patches_merge_as_in_kubernetes(value: Any, patch: Any, expected: Any) -> None:
    before = repr(value)
    assert strategic_merge(value, patch) == expected
    assert repr(value) == before


@pytest.mark.parametrize(
    "patch",
    [
        {"containers": [{"image": "c:1"}]},
        {"containers": ["c"]},
        {"$setElementOrder/containers": [{"image": "c:1"}]},
        {"$setElementOrder/containers": 5},
        {"$setElementOrder/replicas": ["a"]},
        {"$deleteFromPrimitiveList/finalizers": 5},
        {"$deleteFromPrimitiveList/replicas": ["a"]},
    ],
)
def test_invalid_strategic_merge_patches_are_rejected(patch: Any) -> None:
    """An item without its merge key, and directives for a field that is no list."""
    with pytest.raises(ApiError) as caught:
        strategic_merge({**CONTAINERS, "finalizers": ["a"], "replicas": 1}, patch)
    assert caught.value.status == 400


def test_the_result_of_a_patch_must_be_an_object() -> None:
    invalid_patches: list[Any] = [[], "text", None, 3]
    for patch in invalid_patches:
        with pytest.raises(ApiError) as caught:
            apply_patch({"a": 1}, patch, "application/merge-patch+json")
        assert caught.value.status == 400
