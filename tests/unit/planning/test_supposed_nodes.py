"""What if about many nodes."""

import pytest

import muster
from muster.errors import InputError
from muster.planning.supposed_nodes import copy_nodes, nodes_in_domain
from tests.support.drawing import draw

OBJECTS = muster.objects(
    draw("""
        z1/r1  a:2 b:2
        z1/r2  c:1
        z2/r1  d:1
    """)
)


@pytest.mark.parametrize(
    ("level", "path", "nodes"),
    [("zone", "z1", ("a", "b", "c")), ("rack", "z1/r1", ("a", "b")), ("topology/rack", "z2/r1", ("d",))],
)
def test_a_domain_has_the_nodes_with_its_labels(level: str, path: str, nodes: tuple[str, ...]) -> None:
    assert nodes_in_domain(OBJECTS, "cluster", level, path) == nodes


@pytest.mark.parametrize(
    "words", [("x", "rack", "z1/r1"), ("cluster", "x", "z1"), ("cluster", "rack", "z1"), ("cluster", "zone", "")]
)
def test_a_domain_that_is_not_there_is_an_error(words: tuple[str, str, str]) -> None:
    with pytest.raises(InputError):
        nodes_in_domain(OBJECTS, *words)


def test_copies_are_new_nodes_with_names_of_their_own() -> None:
    first = copy_nodes(OBJECTS, "a", 2).nodes
    assert [node.metadata.name for node in first] == ["a-copy-1", "a-copy-2"]
    assert first[0].status == OBJECTS.nodes[0].status
    with pytest.raises(InputError, match="there is no node `x`"):
        copy_nodes(OBJECTS, "x", 1)
