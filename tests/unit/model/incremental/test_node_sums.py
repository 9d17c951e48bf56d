"""Sums by node, kept up to date: equal to adding up all pods again."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.model.incremental.node_sums import LaidOutSums, NodeSums, Usage

REQUESTS = ({"cpu": 1000, "pods": 1}, {"cpu": 500, "nvidia.com/gpu": 8, "pods": 1}, {"memory": 7, "pods": 1})
NODES = ("a", "b", "c", "d")
Counted = tuple[str, int, bool, bool]  # node, kind, terminating, in a gang
PODS = st.tuples(st.sampled_from(NODES), st.integers(0, 2), st.booleans(), st.booleans())
ROUNDS = st.lists(st.tuples(st.lists(PODS, max_size=6), st.permutations(NODES), st.integers(0, 4)), max_size=6)


@given(ROUNDS)
def test_what_is_laid_out_is_the_sum_of_all_pods(rounds: list[tuple[list[Counted], list[str], int]]) -> None:
    """Pods come and go, and nodes too, whose pods stay; what was laid out before never changes."""
    sums, pods, selected = NodeSums(), list[Counted](), list[str]()
    laid_out: list[tuple[LaidOutSums, list[list[list[int]]]]] = []
    columns = ("cpu", "memory", "nvidia.com/gpu", "other", "pods")
    for came, order, many in rounds:
        gone, pods = pods[: len(pods) // 2], [*pods[len(pods) // 2 :], *came]
        changes: dict[tuple[Usage, int], int] = {}
        for counted, sign in (*((one, 1) for one in came), *((one, -1) for one in gone)):
            node, kind, terminating, in_gang = counted
            about = Usage(sums.row(node), terminating, in_gang), kind
            changes[about] = changes.get(about, 0) + sign
        sums.add(changes, REQUESTS)
        nodes = order[:many]
        if many != 3:  # else they stay as they were
            sums.select_nodes(nodes)
            selected = nodes
        elif not laid_out:
            continue
        result = sums.lay_out(columns)
        expected = summed(pods, selected, columns)
        assert [array.tolist() for array in (result.used, result.terminating, result.used_by_gangs)] == expected
        assert sums.has_pods_outside == any(one[0] not in selected for one in pods)
        assert sums.requested_columns() == {name for one in pods if one[0] in selected for name in REQUESTS[one[1]]}
        laid_out.append((result, expected))
    for result, expected in laid_out:
        assert [array.tolist() for array in (result.used, result.terminating, result.used_by_gangs)] == expected


def summed(pods: list[Counted], nodes: list[str], columns: tuple[str, ...]) -> list[list[list[int]]]:
    """The definition."""
    arrays = [np.zeros((len(nodes), len(columns)), dtype=np.int64) for _ in range(3)]
    for node, kind, terminating, in_gang in pods:
        for array, is_counted in zip(arrays, (True, terminating, in_gang), strict=True):
            for name, amount in REQUESTS[kind].items():
                if is_counted and node in nodes:
                    array[nodes.index(node), columns.index(name)] += amount
    return [array.tolist() for array in arrays]


def test_many_nodes_and_columns_fit() -> None:
    sums = NodeSums()
    wide = {f"resource-{i}": i + 1 for i in range(40)}
    sums.add({(Usage(sums.row(f"n{i}"), False, False), 0): 1 for i in range(200)}, [wide])
    sums.select_nodes([f"n{i}" for i in range(100, 200)])
    assert sums.has_pods_outside
    assert sums.lay_out(("resource-39",)).used.sum() == 100 * 40
