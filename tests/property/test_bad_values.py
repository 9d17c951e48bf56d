"""`validate` and `convert` take whatever JSON there is: answers and refusals, never an exception of another kind."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import muster
from muster.api.codec import Document, collect, kind_of
from muster.api.objects import Objects
from muster.conversion.older_formats import READINGS, Reading, convert
from muster.errors import InputError, Refused
from tests.property.trees import fewer
from tests.property.values import (
    BROKEN_TEXT,
    HUGE_NUMBERS,
    NASTY,
    cluster,
    mutants,
    podgroups,
    values,
    with_each_value,
)
from tests.support.factories import Raw

AROUND = muster.objects([*cluster(), podgroups()[0]])
readings = st.sampled_from(READINGS)


def assert_reported(problems: list[muster.Problem]) -> None:
    """Every problem can be shown to people and read by programs."""
    for problem in problems:
        assert all(
            isinstance(text, str) for text in (problem.at, problem.says, problem.hint, problem.rule, problem.key)
        )
        assert problem.says
        assert problem.severity in ("error", "warning")


@given(values())
def test_any_json_value_can_be_judged(value: Any) -> None:
    """A webhook gets whatever a client sends it."""
    assert_reported(muster.validate(value))
    assert_reported(muster.validate(value, around=AROUND))


def called(value: Any) -> str:
    """A short name for a case of the tables below."""
    return f"{value['kind']}-{'-'.join(value.get('spec', ()))}"[:40] if isinstance(value, dict) else ""


nasty = pytest.mark.parametrize(
    "values_",
    [
        pytest.param(NASTY, id="nasty"),
        pytest.param(BROKEN_TEXT, id="broken text"),
        pytest.param(HUGE_NUMBERS, id="huge numbers"),
    ],
)


@nasty
@pytest.mark.parametrize("original", [*podgroups(), *cluster()], ids=called)
def test_every_nasty_value_in_every_place_can_be_judged(original: Raw, values_: tuple[Any, ...]) -> None:
    """Chance may miss the one field that cannot bear a number of 400 digits; this does not."""
    for raw in with_each_value(original, values_):
        assert_reported(muster.validate(raw, original, AROUND))


@pytest.mark.parametrize("original", podgroups(), ids=called)
def test_every_stored_value_can_be_updated(original: Raw) -> None:
    """What is stored may be broken in ways that are refused today."""
    for raw in with_each_value(original, (*BROKEN_TEXT, *HUGE_NUMBERS)):
        assert_reported(muster.validate(original, raw))


@nasty
@pytest.mark.parametrize("original", podgroups(), ids=called)
def test_every_nasty_value_in_every_place_is_converted_or_refused(original: Raw, values_: tuple[Any, ...]) -> None:
    """As above, for the way of older files into the form of record."""
    for raw in with_each_value(original, values_):
        with suppress(Refused, InputError):
            convert(Document("here", raw))


@given(mutants(podgroups()))
def test_a_podgroup_with_anything_in_it_can_be_judged(raw: Raw) -> None:
    """The wrong value hides deep in an object that is right otherwise."""
    assert_reported(muster.validate(raw, around=AROUND))


@given(mutants(cluster()))
def test_any_other_object_with_anything_in_it_can_be_judged(raw: Raw) -> None:
    """Queues, Topologies, pods and nodes come from elsewhere too."""
    assert_reported(muster.validate(raw, around=AROUND))


@fewer
@given(mutants(podgroups()), st.one_of(values(), mutants(podgroups())))
def test_an_update_of_anything_by_anything_can_be_judged(raw: Raw, old: Any) -> None:
    """What is stored was not always checked."""
    assert_reported(muster.validate(raw, old=old))
    assert_reported(muster.validate(podgroups()[0], old=old))


@fewer
@given(mutants(podgroups()), mutants(cluster()))
def test_a_podgroup_among_any_objects_can_be_judged(raw: Raw, other: Raw) -> None:
    """Whatever of the surroundings can be decoded is used, and breaks nothing."""
    assert_reported(muster.validate(raw, around=decoded(other)))
    assert_reported(muster.validate(podgroups()[0], around=decoded(other, raw)))


def decoded(*raws: Raw) -> Objects:
    return collect(Document("here", raw) for raw in [*raws, *cluster()] if kind_of(raw)).objects


@given(mutants(podgroups()), readings)
@example({"kind": "PodGroup", "apiVersion": "scheduling.run.ai/v2alpha2"}, "auto")
def test_a_podgroup_with_anything_in_it_is_converted_or_refused(raw: Raw, reading: Reading) -> None:
    """A refusal is an answer; a KeyError is not."""
    before = copy.deepcopy(raw)
    with suppress(Refused, InputError):
        assert kind_of(convert(Document("here", raw), reading).raw) == kind_of(before)
    assert repr(raw) == repr(before)  # what was given is not changed


@pytest.mark.parametrize("shell", [lambda inner: [inner], lambda inner: {"spec": inner}, lambda inner: {"a": [inner]}])
def test_nesting_of_any_depth_can_be_judged(shell: Any) -> None:
    """Python's stack is not a limit that users should meet."""
    value: Any = 1
    for _ in range(100_000):
        value = shell(value)
    assert_reported(muster.validate({"spec": value}))
    assert_reported(muster.validate(value, old=value))
    while isinstance(value, dict | list) and value:  # taken apart by hand, as Python's own way down recurses
        value = value.pop() if isinstance(value, list) else value.popitem()[1]
