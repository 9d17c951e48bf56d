"""The one index of pods by gang: the same, whether it is built at once or kept up to date."""

from hypothesis import given
from hypothesis import strategies as st

from muster.api.core import Pod
from muster.api.objects import key
from muster.validation.pods.pods_by_gang import PodsByGang, group_by_gang
from tests.support.factories import pod, typed_pod

CHANGES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["g", "h", "", None])), max_size=12)


def typed(name: str, gang: str) -> Pod:
    return typed_pod(pod(name, gang=gang))


@given(CHANGES)
def test_an_index_kept_up_to_date_equals_one_built_at_once(changes: list[tuple[str, str | None]]) -> None:
    """Pods come, change their gang, name none and go, in any order."""
    index, known = PodsByGang(), dict[str, Pod]()
    for name, gang in changes:
        after = None if gang is None else typed(name, gang)
        index.update(known.pop(name, None), after)
        if after is not None:
            known[name] = after
    expected = group_by_gang(known.values())
    assert index.gangs == expected.keys(), "nothing is kept of gangs without pods"
    for gang, pods in expected.items():
        assert set(index.names(gang)) == {key(pod.metadata) for pod in pods}
        assert sorted(map(id, index.pods(gang))) == sorted(map(id, pods))


def test_an_update_returns_every_gang_that_it_touches() -> None:
    index = PodsByGang()
    first, moved = typed("a", "g"), typed("a", "h")
    gang, other = index.update(None, first)[0], index.update(first, moved)[1]
    assert index.update(moved, moved) == (other,)
    assert index.update(moved, None) == (other,)
    assert index.update(None, typed("b", "")) == ()
    assert gang != other
