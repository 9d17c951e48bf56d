"""JSON paths."""

from typing import Any

import pytest

from muster.api.jsonpath import evaluate, is_readable

RAW: Any = {
    "metadata": {"name": "a", "labels": {"example.com/x": "y"}},
    "list": [{"type": "A", "v": 1}, {"type": "B", "v": 2}],
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".metadata.name", ["a"]),
        ("{.metadata.name}", ["a"]),
        ("$.metadata.name", ["a"]),
        (".metadata.none", []),
        (".metadata.labels['example.com/x']", ["y"]),
        (r".metadata.labels.example\.com/x", ["y"]),
        (".list[0].v", [1]),
        (".list[-1].v", [2]),
        (".list[9].v", []),
        (".list[-1:].v", [2]),
        (".list[0:1].v", [1]),
        (".list[:].v", [1, 2]),
        (".list[5:].v", []),
        (".metadata[0:]", []),
        (".list[-:]", []),
        (f".list[{'9' * 5000}]", []),
        (".list[*].v", [1, 2]),
        ('.list[?(@.type=="B")].v', [2]),
        (".list[?(@.type=='C')].v", []),
        (".list[", []),
        (".metadata.name.deeper", []),
    ],
)
def test_json_paths_are_evaluated_as_by_kubectl(path: str, expected: list[Any]) -> None:
    assert evaluate(RAW, path) == expected


@pytest.mark.parametrize("path", [".spec.replicas", "{.spec.replicas}", "$.a[0]", ".a[*].b", ".roles['my.name']"])
def test_a_path_in_the_form_of_kubectl_is_readable(path: str) -> None:
    assert is_readable(path)


@pytest.mark.parametrize("path", ["", "{}", ".list[", ".a b", "..", ".a[?(1)]"])
def test_what_is_no_path_is_not_readable(path: str) -> None:
    assert not is_readable(path)
