"""X6: quantities against their definition in fractions, over every suffix and exponent."""

from contextlib import suppress
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.quantity import LARGEST, format_amount, parse_amount, parse_resources

DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
FACTORS = {
    **{suffix: Fraction(1000) ** power for suffix, power in DECIMAL.items()},
    **{suffix: Fraction(1024) ** power for suffix, power in BINARY.items()},
    **{f"{mark}{power}": Fraction(10) ** power for mark in "eE" for power in range(-30, 31)},
    **{f"e+{power}": Fraction(10) ** power for power in range(31)},
}

names = st.sampled_from(("cpu", "memory", "nvidia.com/gpu"))
signs = st.sampled_from(("", "+", "-"))
digits = st.text(st.sampled_from("0123456789"), min_size=1, max_size=24)
suffixes = st.sampled_from(sorted(FACTORS))


def defined(name: str, sign: str, whole: str, part: str, factor: Fraction) -> int:
    """The number itself, rounded away from zero to whole base units and capped: what Kubernetes promises."""
    exact = (Fraction(int(whole or "0")) + Fraction(int(part or "0"), 10 ** len(part))) * factor
    units = min(ceil(exact * (1000 if name == "cpu" else 1)), LARGEST)
    return -units if sign == "-" else units


@given(names, signs, digits, st.one_of(st.just(""), digits), suffixes)
def test_an_amount_is_the_number_rounded_up_to_base_units(
    name: str, sign: str, whole: str, part: str, suffix: str
) -> None:
    """No floats on the way: nothing is a little more or a little less than it says."""
    text = f"{sign}{whole}{'.' if part else ''}{part}{suffix}"
    assert parse_amount(name, text) == defined(name, sign, whole, part, FACTORS[suffix])


@given(names, digits, suffixes)
def test_a_number_may_start_or_end_with_its_point(name: str, number: str, suffix: str) -> None:
    """`.5` and `5.` are quantities too."""
    assert parse_amount(name, f".{number}{suffix}") == defined(name, "", "", number, FACTORS[suffix])
    assert parse_amount(name, f"{number}.{suffix}") == defined(name, "", number, "", FACTORS[suffix])


@given(names, st.integers(0, 70), st.integers(1, 999), st.integers(-9, 18))
def test_a_long_number_and_its_exponent_cancel_out(name: str, zeros: int, number: int, power: int) -> None:
    """`1000…e-60` is as good a way to write a number as any other."""
    expected = defined(name, "", str(number), "", Fraction(10) ** power)
    assert parse_amount(name, f"{number}{'0' * zeros}e{power - zeros}") == expected
    assert parse_amount(name, f"0.{'0' * zeros}{number:03}e{power + zeros + 3}") == expected


@given(names, st.integers(-LARGEST, LARGEST))
def test_what_is_written_reads_back_exactly(name: str, value: int) -> None:
    """A plan that is printed and read again is the same plan."""
    assert parse_amount(name, format_amount(name, value)) == value


@given(names, st.integers(-(10**9), 10**9), st.sampled_from((1, 1000, 1024, 1024**2, 10**6, 1024**3)))
def test_round_numbers_are_written_and_read_back_exactly(name: str, number: int, unit: int) -> None:
    """Round numbers take the ways with a suffix."""
    assert parse_amount(name, format_amount(name, number * unit)) == number * unit


@given(names, st.integers(-(2**53), 2**53))
def test_a_whole_number_from_yaml_is_what_it_says(name: str, value: int) -> None:
    """`cpu: 2` is as good as `cpu: "2"`."""
    assert parse_amount(name, value) == parse_amount(name, str(value)) == value * (1000 if name == "cpu" else 1)


@given(names, st.floats(-1e15, 1e15))
def test_a_number_with_a_point_from_yaml_is_the_decimal_that_was_written(name: str, value: float) -> None:
    """YAML's `0.1` is the text `0.1`, not the nearest binary fraction above it."""
    exact = abs(Fraction(repr(value))) * (1000 if name == "cpu" else 1)
    assert abs(parse_amount(name, value)) == ceil(exact)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_parts_add_up_to_the_whole(millis: list[int]) -> None:
    """X6: what fits on paper fits: ten tenths are one."""
    parts = [f"{number // 1000}.{number % 1000:03}" for number in millis]
    assert sum(parse_amount("cpu", part) for part in parts) == parse_amount("cpu", f"{sum(millis)}m")


def test_a_tenth_and_two_tenths_fit_into_three_tenths() -> None:
    """X6, as it is written there."""
    assert parse_amount("cpu", "0.1") + parse_amount("cpu", "0.2") <= parse_amount("cpu", "0.3")
    assert parse_amount("cpu", 0.1) + parse_amount("cpu", 0.2) <= parse_amount("cpu", 0.3)


@given(names, st.text(max_size=12))
def test_any_text_is_an_amount_or_refused(name: str, text: str) -> None:
    """A ValueError says what is wrong; nothing else may happen."""
    with suppress(ValueError):
        assert isinstance(parse_amount(name, text), int)
        assert text.isascii()


@given(st.dictionaries(names, st.tuples(digits, suffixes).map("".join)))
def test_a_list_of_resources_is_read_one_by_one(raw: dict[str, str]) -> None:
    """Each resource in its own unit."""
    assert parse_resources(raw) == {name: parse_amount(name, text) for name, text in raw.items()}


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "9" * 500, "1e" + "9" * 400])
def test_enormous_numbers_cost_nothing(text: str) -> None:
    """An exponent of nine digits must not be computed."""
    assert parse_amount("memory", text) in (1, LARGEST)
