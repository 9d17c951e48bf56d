"""The Python API answers misuse with its own errors: the function, what it expected, what it got, and a way out."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

import muster
from muster.errors import InputError

api = cast("Any", muster)  # what a type checker would refuse
NONE = muster.objects([])
MISUSE: dict[str, tuple[Callable[[], object], str]] = {
    "plan(None)": (lambda: api.plan(None), "muster.plan: expected muster.Objects, got NoneType"),
    "plan of dicts": (lambda: api.plan([{"kind": "Pod"}]), "muster.plan: expected muster.Objects, got list"),
    "now as text": (lambda: api.plan(NONE, now="x"), "muster.plan: expected `now` as a datetime, got str `x`"),
    "now as a date": (lambda: api.plan(NONE, now=date(2026, 1, 1)), "expected `now` as a datetime, got date"),
    "policy as a number": (lambda: api.plan(NONE, policy=3), "muster.plan: expected muster.Policy, got int `3`"),
    "a policy of text": (lambda: api.plan(NONE, muster.Policy(steps=cast("Any", "x"))), "the policy is invalid"),
    "objects(None)": (lambda: api.objects(None), "muster.objects: expected a list of dicts, got NoneType"),
    "objects of text": (lambda: api.objects("x"), "muster.objects: expected a list of dicts, got str `x`"),
    "objects of one": (lambda: api.objects({"kind": "Pod"}), "muster.objects: expected a list of dicts, got dict"),
    "objects of numbers": (lambda: api.objects([3]), "object 0: expected a dict, got int"),
    "explain by number": (lambda: api.explain(NONE, 5), "muster.explain: expected the key of a gang"),
    "explain nothing": (lambda: api.explain(None, "a/b"), "expected muster.Objects, got NoneType"),
    "load(5)": (lambda: api.load(5), "muster.load: expected a path, got int `5`"),
    "load(None)": (lambda: api.load(None), "muster.load: expected a path, got NoneType"),
    "load a list": (lambda: api.load(["a"]), "muster.load: expected a path, got list"),
    "load bytes": (lambda: api.load(b"a"), "muster.load: expected a path, got bytes"),
    "load a null": (lambda: api.load("a\0b"), "muster.load: expected a path without null characters"),
    "load by text": (lambda: api.load("a", max_file_mib="y"), "expected `max_file_mib` as a whole number from 1 on"),
    "load nothing at most": (lambda: api.load("a", max_file_mib=0), "expected `max_file_mib` as a whole number"),
    "what_if(None)": (lambda: api.what_if(None), "muster.what_if: expected muster.Objects, got NoneType"),
    "with_ a number": (lambda: api.what_if(NONE, with_=3), "muster.what_if: expected muster.Objects, got int"),
    "without a number": (lambda: api.what_if(NONE, without=5), "expected `without` as a list of names, got int"),
    "drain numbers": (lambda: api.what_if(NONE, drain=[3]), "expected names in `drain`, got int"),
    "set a list": (lambda: api.what_if(NONE, set=[("a", 1)]), "expected `set` as a dict, got list"),
    "set by number": (lambda: api.what_if(NONE, set={3: 1}), "expected paths in `set`, got int"),
    "what_if policy": (lambda: api.what_if(NONE, policy="p"), "expected muster.Policy, got str"),
    "around a dict": (lambda: api.validate({}, around={}), "muster.validate: expected muster.Objects, got dict"),
}


@pytest.mark.parametrize(("call", "says"), MISUSE.values(), ids=MISUSE)
def test_misuse_is_explained_in_words(call: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert says in caught.value.message


def test_what_is_right_is_not_refused(tmp_path: Path) -> None:
    """Paths of any kind, one name for a list of one, a generator of dicts, a moment without a zone."""
    (tmp_path / "n.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: n}}")
    loaded = muster.load(tmp_path, max_file_mib=1)
    assert loaded.nodes == muster.load(str(tmp_path / "n.yaml")).nodes
    assert muster.what_if(loaded, drain="n", set=None).changes
    raws: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]
    assert muster.objects(raw for raw in raws).nodes == loaded.nodes


def test_a_pod_clique_set_is_explained_by_its_name() -> None:
    objects = api.load("examples/cluster", "examples/grove/topology.yaml")
    words = api.explain(objects, "pcs/inference/packed")
    assert words.startswith("inference/packed  PodCliqueSet")
    assert "packed-0-prefill-0" in words
    with pytest.raises(InputError, match="nowhere"):
        api.explain(objects, "pcs/inference/nowhere")
