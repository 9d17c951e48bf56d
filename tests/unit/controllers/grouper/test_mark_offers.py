"""Which pods wait for their bindings to be marked, and for how long."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from muster.api.meta import ObjectMeta
from muster.controllers.grouper import mark_offers
from muster.controllers.grouper.gang_record import mark_of
from muster.controllers.grouper.mark_offers import BUSY_SECONDS, WAIT_SECONDS, MarkOffers, NoCarrier
from muster.controllers.grouper.members import GroupedPod
from muster.grouping.group import assign
from muster.grouping.owners import OwnerChain
from muster.grouping.types import WorkloadPod, WorkloadPodSpec, WorkloadPodStatus
from muster.kube.pod_mark import PodMark


class SimpleCarrier(NoCarrier):
    """Takes every mark along until a test says that the pod is bound."""

    def __init__(self) -> None:
        self.offered: dict[str, PodMark] = {}
        self.bound: set[str] = set()
        self.is_binding = False

    def offer(self, pod: str, uid: str, mark: PodMark | None) -> bool:  # noqa: ARG002
        is_new = mark is not None and pod not in self.offered
        self.offered.pop(pod, None)
        if mark is not None:
            self.offered[pod] = mark
        return is_new

    def may_carry(self, pod: str, uid: str) -> bool:
        return pod in self.offered and uid not in self.bound


class OfferScene:
    """Pods by number, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.carrier = SimpleCarrier()
        self.offers = MarkOffers(self.carrier, lambda: self.now)

    def offer(self, *members: GroupedPod) -> list[GroupedPod]:
        """They are assigned, and their PodGroup is written; returns those that have joined by that."""
        joined: list[GroupedPod] = []
        for one in members:
            self.offers.assign(None, one)
        self.offers.offer(members, joined.append)
        return joined

    def split(self, *members: GroupedPod, is_stored: bool = True) -> tuple[list[str], float]:
        due, seconds = self.offers.split(members[0].gang, members, is_stored)
        return [member.pod.metadata.name for member in due], seconds


@pytest.fixture
def scene() -> Iterator[OfferScene]:
    """Every pod is one of many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mark_offers, "MOST_AT_ONCE", 0)
        yield OfferScene()


def member(number: int = 0) -> GroupedPod:
    meta = ObjectMeta(name=f"p{number}", namespace="default", uid=f"u{number}")
    pod = WorkloadPod(meta, WorkloadPodSpec("muster"))
    return GroupedPod(pod, assign(pod, OwnerChain(), ()))


def marked(one: GroupedPod) -> GroupedPod:
    return replace(one, pod=replace(one.pod, metadata=mark_of(one).put_on(one.pod.metadata)))


def test_few_pods_are_marked_at_once_and_others_of_many_wait() -> None:
    scene, members = OfferScene(), [member(number) for number in range(mark_offers.MOST_AT_ONCE + 2)]
    assert scene.offer(*members) == members[-2:]
    assert scene.split(*members) == ([one.pod.metadata.name for one in members[:-2]], WAIT_SECONDS)


def test_pods_that_were_marked_count_no_more() -> None:
    scene, members = OfferScene(), [member(number) for number in range(mark_offers.MOST_AT_ONCE + 1)]
    scene.offer(*members[:-1])
    scene.offers.settle(marked(members[0]))
    assert not scene.offer(members[-1])


def test_pods_that_finish_unmarked_count_no_more() -> None:
    scene, members = OfferScene(), [member(number) for number in range(mark_offers.MOST_AT_ONCE + 1)]
    scene.offer(*members[:-1])
    finished = replace(members[0], pod=replace(members[0].pod, status=WorkloadPodStatus("Succeeded")))
    scene.offers.assign(members[0], finished)
    assert not scene.offer(members[-1])


def test_a_pod_waits_a_moment_for_its_binding(scene: OfferScene) -> None:
    scene.offer(member())
    assert scene.split(member()) == ([], WAIT_SECONDS)
    assert len(scene.offers) == 1
    scene.now = WAIT_SECONDS
    assert scene.split(member()) == (["p0"], 0.0)
    assert len(scene.offers) == 0


def test_the_moment_begins_when_the_pod_group_is_stored(scene: OfferScene) -> None:
    """Before that no pod of it can be bound."""
    scene.offer(member())
    scene.split(member(), is_stored=False)
    scene.now = 5 * WAIT_SECONDS
    assert scene.split(member(), is_stored=False) == ([], WAIT_SECONDS)
    assert scene.split(member()) == ([], WAIT_SECONDS)


def test_a_pod_waits_longer_while_bindings_are_sent_but_not_for_ever(scene: OfferScene) -> None:
    scene.carrier.is_binding = True
    scene.offer(member())
    scene.split(member())
    scene.now = BUSY_SECONDS - 1
    assert scene.split(member()) == ([], 1.0)
    scene.now = BUSY_SECONDS
    assert scene.split(member()) == (["p0"], 0.0)


def test_a_bound_pod_without_its_mark_is_marked_at_once(scene: OfferScene) -> None:
    """An API server that drops labels leaves it so."""
    scene.offer(member())
    scene.carrier.bound.add("u0")
    assert scene.split(member()) == (["p0"], 0.0)


def test_a_marked_pod_waits_for_nothing(scene: OfferScene) -> None:
    scene.offer(member())
    scene.split(member())
    scene.offers.settle(marked(member()))
    assert len(scene.offers) == 0


def test_a_pod_that_is_gone_is_withdrawn(scene: OfferScene) -> None:
    scene.offer(member())
    scene.split(member())
    scene.offers.assign(member(), None)
    assert scene.carrier.offered == {}
    assert len(scene.offers) == 0


def test_pods_of_a_pass_that_marks_only_some_do_not_wait_again(scene: OfferScene) -> None:
    """Else a gang of thousands that cannot be bound would be marked a few pods a moment."""
    members = [member(0), member(1)]
    scene.offer(*members)
    scene.split(*members)
    scene.now = WAIT_SECONDS
    assert scene.split(*members) == (["p0", "p1"], 0.0)
    assert scene.split(members[1]) == (["p1"], 0.0)


def test_after_a_change_of_leaders_the_moment_begins_again(scene: OfferScene) -> None:
    scene.offer(member())
    scene.split(member())
    scene.now = 2 * WAIT_SECONDS
    scene.offers.restart()
    assert scene.split(member()) == ([], WAIT_SECONDS)
