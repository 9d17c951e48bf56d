"""A dict whose copies share what does not change: it behaves as a dict, and so do its copies."""

from hypothesis import given
from hypothesis import strategies as st

from muster.model.incremental.sharded_dict import ShardedDict

NAMES = st.sampled_from([f"team/pod-{i}" for i in range(40)])
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "pop", "delete", "copy"]), NAMES, st.integers(0, 9)), max_size=60)


@given(CHANGES)
def test_it_is_equal_to_a_dict_and_a_copy_never_changes(changes: list[tuple[str, str, int]]) -> None:
    """Rule 3 of the incremental snapshot: a snapshot that was returned never changes."""
    sharded: ShardedDict[int] = ShardedDict()
    plain: dict[str, int] = {}
    copies: list[tuple[ShardedDict[int], dict[str, int]]] = []
    for change, name, value in changes:
        match change:
            case "put":
                sharded[name] = plain[name] = value
            case "pop":
                assert sharded.pop(name) == plain.pop(name, None)
            case "delete" if name in plain:
                del sharded[name], plain[name]
            case "copy":
                copies.append((sharded.copy(), plain.copy()))
            case _:
                pass  # there is nothing to delete
        assert dict(sharded.items()) == plain
    for copy, expected in ((sharded, plain), *copies):
        assert (dict(copy.items()), len(copy), set(copy)) == (expected, len(expected), set(expected))
        assert sorted(copy.values()) == sorted(expected.values())
        assert all(name in copy and copy[name] == copy.get(name) == value for name, value in expected.items())
        assert "other" not in copy
        assert copy.get("other", 7) == 7


def test_a_copy_can_be_changed_as_well() -> None:
    first: ShardedDict[int] = ShardedDict()
    first["a"] = 1
    second = first.copy()
    second["a"] = 2
    third = second.copy()
    second["b"] = 3
    assert [dict(one.items()) for one in (first, second, third)] == [{"a": 1}, {"a": 2, "b": 3}, {"a": 2}]
