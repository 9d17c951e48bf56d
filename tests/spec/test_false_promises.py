"""P7 is a promise of this scheduler: what others write into the annotation holds no room for ever."""

import json

import pytest

import muster
from muster.api.names import MOVED_TO
from tests.support.factories import Raw, node, pod, podgroup
from tests.support.planned_gang import NOW


def claiming(since: str) -> Raw:
    """A PodGroup that claims all of node `a`."""
    raw = podgroup(name="claims", minMember=1)
    places = {"": {"a": {"cpu": 8_000, "pods": 1}}}
    raw["metadata"]["annotations"] = {MOVED_TO: json.dumps({"places": places, "since": since})}
    return raw


WAITING = [podgroup(name="new", minMember=1), pod("new-0", gang="new", cpu=8)]


def verdict(*objects: Raw) -> str:
    return muster.plan(muster.objects([node("a", cpu=8), *WAITING, *objects]), now=NOW).verdict("team/new")


def test_a_promise_of_now_is_kept() -> None:
    """The control: without it the others could not fail."""
    assert verdict(claiming(NOW.isoformat())) != "Scheduled"


@pytest.mark.parametrize("since", ["2099-01-01T00:00:00Z", "2001-01-01T00:00:00Z"])
def test_a_promise_of_another_time_is_none(since: str) -> None:
    """One from the future would never end."""
    assert verdict(claiming(since)) == "Scheduled"


def test_a_gang_of_another_scheduler_is_promised_nothing() -> None:
    """N6: its pods only take room on their nodes."""
    other = pod("claims-0", gang="claims", cpu=1)
    other["spec"]["schedulerName"] = "default-scheduler"
    assert verdict(claiming(NOW.isoformat()), other) == "Scheduled"
