"""Tables for quantities: every suffix, exponents, rounding, caps, and numbers as YAML gives them (X6)."""

import re

import pytest

from muster.api.quantity import LARGEST, Resources, format_amount, parse_amount, parse_exact, parse_resources

WHOLE = [
    *(("0", 0), ("1", 1), ("007", 7), ("+3", 3), ("-3", -3), ("12.", 12), ("1.0", 1), ("-0", 0)),
    *(("1k", 10**3), ("1M", 10**6), ("1G", 10**9), ("1T", 10**12), ("1P", 10**15), ("1E", 10**18)),
    *(("1Ki", 2**10), ("1Mi", 2**20), ("1Gi", 2**30), ("1Ti", 2**40), ("1Pi", 2**50), ("1Ei", 2**60)),
    *(("1e3", 10**3), ("1E3", 10**3), ("1e+3", 10**3), ("1500e-3", 2), ("0.5e1", 5), ("1e0", 1)),
    *(("1.5Gi", 3 * 2**29), ("0.5Ki", 512), (".5k", 500), ("2.5M", 2_500_000), ("-1Ki", -1024)),
]
ROUNDED = [
    *(("1n", 1), ("1u", 1), ("1m", 1), ("999m", 1), ("1000m", 1), ("1001m", 2), ("0.1", 1), ("1.000000001", 2)),
    *(("-1m", -1), ("-1.5", -2), ("0.1Ki", 103), ("0.0000000001", 1), ("1e-30", 1), ("0e9", 0), ("0m", 0)),
]
CPU = [
    *(("1", 1000), ("0.5", 500), ("500m", 500), ("100m", 100), ("1m", 1), ("0.001", 1), ("2k", 2_000_000)),
    *(("0.0001", 1), ("1u", 1), ("1n", 1), ("1.0005", 1001), ("-250m", -250), ("-0.0001", -1), ("1Ki", 1_024_000)),
    *(("1e-3", 1), ("1e-4", 1), ("1.5", 1500), ("0", 0), ("0m", 0)),
]
CAPPED = [
    *(("9223372036854775807", LARGEST), ("9223372036854775808", LARGEST), ("8Ei", LARGEST), ("10E", LARGEST)),
    *(("1e30", LARGEST), ("1e999999999999", LARGEST), ("-1e30", -LARGEST), ("-8Ei", -LARGEST), ("9" * 100, LARGEST)),
]
WRONG = [
    *("", " ", "1 ", " 1", "one", ".", "+", "-", "--1", "1.2.3", "1,5", "1_000", "0x10", "1e", "1e1.5", "1e3Ki", "1ki"),
    *("1K", "1mi", "1g", "1Kib", "1GB", "1 Gi", "e3", "Ki", "1e+", "1Gi ", "NaN", "inf", "1\n", "١", "１", "1e٣"),
]


@pytest.mark.parametrize(("text", "value"), WHOLE)
def test_whole_units_are_read_exactly(text: str, value: int) -> None:
    """Bytes, devices and pods count in ones."""
    assert parse_amount("memory", text) == value
    assert parse_amount("nvidia.com/gpu", text) == value


@pytest.mark.parametrize(("text", "value"), ROUNDED)
def test_what_is_finer_than_a_unit_is_rounded_away_from_zero(text: str, value: int) -> None:
    """A pod that asks for a little takes a whole one, as Kubernetes counts it."""
    assert parse_amount("memory", text) == value


@pytest.mark.parametrize(("text", "value"), CPU)
def test_cpu_counts_in_millicores(text: str, value: int) -> None:
    """The unit that Kubernetes schedules cpu in."""
    assert parse_amount("cpu", text) == value


@pytest.mark.parametrize(("text", "value"), CAPPED)
def test_what_is_larger_than_an_int64_is_capped(text: str, value: int) -> None:
    """As Kubernetes does; and it costs nothing to find out."""
    assert parse_amount("memory", text) == value
    assert parse_amount("cpu", text) == value


@pytest.mark.parametrize("text", WRONG, ids=lambda text: repr(text)[:20])
def test_a_text_that_is_no_quantity_is_reported(text: str) -> None:
    """Kubernetes refuses each of these too."""
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_amount("memory", text)


@pytest.mark.parametrize(
    ("value", "cpu", "memory"),
    [
        *((0, 0, 0), (2, 2000, 2), (-1, -1000, -1), (10**18, LARGEST, 10**18), (10**30, LARGEST, LARGEST)),
        *((0.1, 100, 1), (0.5, 500, 1), (1.5, 1500, 2), (2.0, 2000, 2), (1e3, 10**6, 1000), (1e22, LARGEST, LARGEST)),
        *((1e-7, 1, 1), (0.30000000000000004, 301, 1), (-0.5, -500, -1)),
    ],
)
def test_numbers_from_yaml_mean_what_was_written(value: float, cpu: int, memory: int) -> None:
    """`cpu: 0.1` without quotes is a float by the time it is read: its shortest decimal is what was written."""
    assert parse_amount("cpu", value) == cpu
    assert parse_amount("memory", value) == memory


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_no_quantity_is_reported(value: float) -> None:
    """YAML knows them; quantities do not."""
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_amount("cpu", value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        *(("cpu", 0, "0"), ("cpu", 1, "1m"), ("cpu", 1500, "1500m"), ("cpu", 2000, "2"), ("cpu", -250, "-250m")),
        *(("memory", 0, "0"), ("memory", 1, "1"), ("memory", 1023, "1023"), ("memory", 1024, "1Ki")),
        *(("memory", 3 * 2**29, "1536Mi"), ("memory", 2**60, "1Ei"), ("memory", -(2**30), "-1Gi")),
        *(("memory", 5 * 10**8, "500M"), ("memory", 4 * 10**12, "4T"), ("memory", 1000 * 2**30, "1000Gi")),
        *(("memory", LARGEST, str(LARGEST)), ("nvidia.com/gpu", 8, "8"), ("pods", 110, "110")),
    ],
)
def test_amounts_are_written_as_people_write_them(name: str, value: int, text: str) -> None:
    """And read back as the same amount."""
    assert format_amount(name, value) == text
    assert parse_amount(name, text) == value


def test_a_list_of_resources_has_each_in_its_own_unit() -> None:
    """`null` is not set."""
    raw = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 2, "pods": 110.0, "ephemeral-storage": None}
    assert parse_resources(raw) == Resources({"cpu": 500, "memory": 2**30, "nvidia.com/gpu": 2, "pods": 110})


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"cpu": "lots"}, "`cpu`: `lots` is not a quantity"),
        ({"memory": True}, "`memory`: expected a quantity such as `500m` or `16Gi`"),
        ({"memory": ["1"]}, "`memory`: expected a quantity such as `500m` or `16Gi`"),
        ({"cpu": 1, "memory": {}}, "`memory`: expected a quantity such as `500m` or `16Gi`"),
        (["cpu"], "expected amounts by resource name"),
        ("1", "expected amounts by resource name"),
        (None, "expected amounts by resource name"),
    ],
)
def test_a_list_of_resources_that_is_wrong_names_the_resource(raw: object, says: str) -> None:
    """The path ends at the list; the sentence goes on from there."""
    with pytest.raises(ValueError, match=re.escape(says)) as wrong:
        parse_resources(raw)
    assert str(wrong.value) == says


@pytest.mark.parametrize(("text", "same"), [("1000m", "1"), ("-1.5", "-1500m"), ("9e40", "90e39"), ("1n", "0.1n")])
def test_two_ways_to_write_a_quantity_of_any_size_are_one_number(text: str, same: str) -> None:
    """What is finer than a nano is rounded away from zero."""
    assert parse_exact(text) == parse_exact(same)


def test_quantities_that_differ_by_a_nano_are_two_numbers() -> None:
    assert parse_exact("1.000000001") != parse_exact("1.000000002")
