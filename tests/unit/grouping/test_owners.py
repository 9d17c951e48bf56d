"""The way from a pod up to its workload."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from muster.api.meta import ObjectMeta, OwnerReference
from muster.grouping.owners import MOST_OWNERS, Lookup, Missing, OwnerChain, OwnersUnsynced, walk_owners
from muster.grouping.types import Owner, Ungrouped
from tests.support.owned_pods import owned_by, owner, pod

TOP = owner("{apiVersion: apps/v1, kind: Deployment, metadata: {name: top}}")


def below(above: Owner, name: str = "middle") -> Owner:
    raw = owner({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}})
    return replace(raw, metadata=replace(raw.metadata, owner_references=(owned_by(above),)))


def member(*references: OwnerReference) -> ObjectMeta:
    return replace(pod().metadata, owner_references=references)


def of(*known: Owner, missing: Missing = "NotFound") -> Lookup:
    owners: Mapping[str, Owner] = {each.metadata.name: each for each in known}
    return lambda reference, _: owners.get(reference.name, missing)


def test_controllers_are_followed_to_the_top() -> None:
    middle = below(TOP)
    assert walk_owners(member(owned_by(middle)), of(middle, TOP)) == OwnerChain((middle, TOP))


def test_a_pod_without_owners_has_none() -> None:
    assert walk_owners(member(), of()) == OwnerChain()


def test_the_controller_counts_among_several_owners() -> None:
    other = OwnerReference("v1", "ConfigMap", "other", "uid-other")
    assert walk_owners(member(other, owned_by(TOP)), of(TOP)) == OwnerChain((TOP,))


def test_an_only_owner_counts_without_being_the_controller() -> None:
    assert walk_owners(member(owned_by(TOP, is_controller=False)), of(TOP)) == OwnerChain((TOP,))


@pytest.mark.parametrize("is_controller", [True, False])
def test_several_owners_of_which_none_alone_controls_are_said(is_controller: bool) -> None:
    both = owned_by(TOP, is_controller=is_controller), owned_by(below(TOP), is_controller=is_controller)
    problem = walk_owners(member(*both), of(TOP))
    assert isinstance(problem, Ungrouped)
    assert problem.reason == "SeveralOwners"
    assert "Deployment `top`, ReplicaSet `middle`" in problem.message


@pytest.mark.parametrize(
    ("missing", "reason"),
    [("Unlisted", "OwnerNotListed"), ("Forbidden", "OwnerForbidden"), ("NoSuchKind", "OwnerKindMissing")],
)
def test_the_last_owner_that_may_be_read_counts_and_the_pod_says_so(missing: Missing, reason: str) -> None:
    middle = below(TOP)
    chain = walk_owners(member(owned_by(middle)), of(middle, missing=missing))
    assert isinstance(chain, OwnerChain)
    assert chain.owners == (middle,)
    (note,) = chain.notes
    assert note.reason == reason
    assert "ReplicaSet `middle`" in note.message
    assert note.hint


def test_an_owner_that_is_gone_is_said() -> None:
    problem = walk_owners(member(owned_by(TOP)), of())
    assert isinstance(problem, Ungrouped)
    assert problem.reason == "OwnerNotFound"


def test_an_owner_with_another_uid_is_said_and_not_guessed() -> None:
    problem = walk_owners(member(replace(owned_by(TOP), uid="older")), of(TOP))
    assert isinstance(problem, Ungrouped)
    assert problem.reason == "OwnerUidDiffers"
    assert "older" in problem.message


def test_an_owner_that_is_not_listed_yet_is_waited_for() -> None:
    assert walk_owners(member(owned_by(TOP)), of(missing="Unsynced")) == OwnersUnsynced(owned_by(TOP))


def test_owners_that_lead_in_a_circle_are_said() -> None:
    first = below(TOP, "first")
    second = below(first, "second")
    circle = replace(first, metadata=replace(first.metadata, owner_references=(owned_by(second),)))
    problem = walk_owners(member(owned_by(circle)), of(circle, second))
    assert isinstance(problem, Ungrouped)
    assert problem.reason == "OwnersWithoutEnd"


def test_owners_without_end_are_said() -> None:
    chain = [TOP]
    for number in range(MOST_OWNERS + 1):
        chain.append(below(chain[-1], f"o{number}"))
    problem = walk_owners(member(owned_by(chain[-1])), of(*chain))
    assert isinstance(problem, Ungrouped)
    assert problem.reason == "OwnersWithoutEnd"
