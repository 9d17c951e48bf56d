"""Decisions that are on their way: laid over what is seen until it is seen, or is otherwise for certain."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api.core import Pod, PodSpec
from muster.scheduler.assumed_pods import AssumedPods
from tests.support.factories import stored_pod, typed_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "team/p"


def cached_pod(uid: str = "u1", node: str = "", terminating: bool = False) -> Pod:
    return typed_pod(stored_pod("p", uid=uid, on=node, terminating=terminating))


def laid(assumed_pods: AssumedPods, *pods: Pod, listed: int = 0) -> tuple[Pod, ...]:
    assumed = assumed_pods.overlay(dict(zip((KEY,), pods, strict=False)).get, NOW, listed)
    return tuple(assumed.get(KEY, one) for one in pods)


def test_nothing_sent_changes_nothing() -> None:
    assert AssumedPods().overlay({KEY: cached_pod()}.get, NOW, 0) == {}


def test_a_binding_that_is_not_seen_yet_counts_as_done() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assert laid(assumed_pods, cached_pod()) == (cached_pod(node="a"),)
    assert len(assumed_pods) == 1


def test_a_binding_that_is_seen_is_forgotten() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assert laid(assumed_pods, cached_pod(node="a")) == (cached_pod(node="a"),)
    assert len(assumed_pods) == 0


def test_what_is_seen_wins_over_what_was_sent() -> None:
    """Another scheduler was faster and chose another node."""
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assert laid(assumed_pods, cached_pod(node="b")) == (cached_pod(node="b"),)


def test_an_eviction_that_is_not_seen_yet_counts_as_terminating() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume_evicted(KEY, "u1")
    assert laid(assumed_pods, cached_pod(node="a")) == (cached_pod(node="a", terminating=True),)
    assert laid(assumed_pods, cached_pod(node="a", terminating=True)) == (cached_pod(node="a", terminating=True),)
    assert len(assumed_pods) == 0


def test_a_pod_that_is_evicted_before_its_binding_is_seen_still_holds_its_node() -> None:
    """I2: its node would be given to others while it is still there."""
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assumed_pods.assume_evicted(KEY, "u1")
    assert laid(assumed_pods, cached_pod()) == (cached_pod(node="a", terminating=True),)
    assert laid(assumed_pods, cached_pod(node="a")) == (cached_pod(node="a", terminating=True),)
    assert laid(assumed_pods, cached_pod(node="a", terminating=True)) == (cached_pod(node="a", terminating=True),)
    assert len(assumed_pods) == 0


def test_where_the_binding_fails_the_pod_terminates_all_the_same() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assumed_pods.assume_evicted(KEY, "u1")
    assumed_pods.forget(KEY, "u1")
    assert laid(assumed_pods, cached_pod()) == (cached_pod(terminating=True),)


def test_another_pod_of_that_name_has_nothing_to_do_with_it() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assert laid(assumed_pods, cached_pod("u2")) == (cached_pod("u2"),)
    assumed_pods.assume(KEY, "u1", "a")
    assumed_pods.assume_evicted(KEY, "u2")
    assert laid(assumed_pods, cached_pod("u2")) == (cached_pod("u2", terminating=True),)


def test_a_pod_that_is_gone_is_forgotten() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assert laid(assumed_pods) == ()
    assert len(assumed_pods) == 0


def test_only_a_list_that_began_after_the_confirmation_disproves_a_binding() -> None:
    """Time does not: a watch may be late by any time, and lists that had begun before may not have it (I2)."""
    begun = 3
    assumed_pods = AssumedPods(lambda: begun)
    assumed_pods.assume(KEY, "u1", "a")
    assert laid(assumed_pods, cached_pod(), listed=9) == (cached_pod(node="a"),), (
        "it is not confirmed, so it may still come"
    )
    assumed_pods.confirm(KEY, "u2")
    assert laid(assumed_pods, cached_pod(), listed=9) == (cached_pod(node="a"),), "that was another pod"
    assumed_pods.confirm(KEY, "u1")
    assert laid(assumed_pods, cached_pod(), listed=3) == (cached_pod(node="a"),)
    assert laid(assumed_pods, cached_pod(), listed=4) == (cached_pod(),)
    assert len(assumed_pods) == 0


def test_an_eviction_goes_the_same_way() -> None:
    assumed_pods = AssumedPods(lambda: 3)
    assumed_pods.assume_evicted(KEY, "u1")
    assert laid(assumed_pods, cached_pod(node="a"), listed=3) == (cached_pod(node="a", terminating=True),)
    assert laid(assumed_pods, cached_pod(node="a"), listed=4) == (cached_pod(node="a"),)


def test_a_failed_write_for_one_pod_does_not_affect_the_next_pod_of_that_name() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u2", "a")
    assumed_pods.forget(KEY, "u1")
    assert laid(assumed_pods, cached_pod("u2")) == (cached_pod("u2", node="a"),)


def test_what_did_not_happen_is_forgotten_at_once() -> None:
    assumed_pods = AssumedPods()
    assumed_pods.assume(KEY, "u1", "a")
    assumed_pods.forget(KEY, "u1")
    assumed_pods.forget("team/never-sent", "u1")
    assert laid(assumed_pods, cached_pod()) == (cached_pod(),)


STEPS = st.lists(st.sampled_from(["bind", "evict", "see bound", "see terminating", "look"]), max_size=12)


@settings(max_examples=200)
@given(STEPS)
def test_writes_in_flight_never_free_a_node(steps: list[str]) -> None:
    """Once bound and until gone, a pod is laid on its node, whatever order things are sent and seen in."""
    assumed_pods, seen, sent = AssumedPods(), cached_pod(), False
    for step in steps:
        match step:
            case "bind" if not sent:
                assumed_pods.assume(KEY, "u1", "a")
                sent = True
            case "evict":
                assumed_pods.assume_evicted(KEY, "u1")
            case "see bound" if sent:
                seen = replace(seen, spec=PodSpec(node_name="a"))
            case "see terminating" if seen.spec.node_name:
                seen = cached_pod(node="a", terminating=True)
        (overlaid,) = laid(assumed_pods, seen)
        assert overlaid.spec.node_name == ("a" if sent else "")
