"""Small pieces of what people see."""

import pytest

from muster.reporting.text import DEEPEST_DRAWN, bar, guides, rough


@pytest.mark.parametrize(
    ("taken", "capacity", "expected"),
    [(0, 8, "░░░░"), (1, 8, "█░░░"), (4, 8, "██░░"), (8, 8, "████"), (9, 8, "████"), (0, 0, "░░░░"), (3, 0, "░░░░")],
)
def test_a_bar_shows_how_much_is_taken(taken: int, capacity: int, expected: str) -> None:
    """Anything at all shows, and more than there is does not burst it."""
    assert bar(taken, capacity, width=4) == expected


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu", 123_456_789, "123456789m"),
        ("nvidia.com/gpu", 10**9, "1000000000"),
        ("memory", 0, "0"),
        ("memory", 4 * 10**12, "4T"),
        ("memory", 7 * 2**30, "7Gi"),
        ("memory", 12_345_678, "12345678"),
        ("memory", 123_456_789, "~117.7Mi"),
        ("memory", 2**40 + 1, "~1.0Ti"),
        ("memory", 2**63 - 1, "~7.9Ei"),
    ],
)
def test_an_amount_for_people_is_exact_where_that_is_short(name: str, value: int, text: str) -> None:
    """Fair shares of memory are odd numbers of bytes; `-o json` has all their digits."""
    assert rough(name, value) == text


def test_lines_lead_to_every_name_of_a_forest() -> None:
    """Top names have none in front."""
    parts = [("a", ("b", "d")), ("b", ("c",)), ("c", ()), ("d", ()), ("e", ())]
    assert guides(parts) == {"a": "", "b": "├─ ", "c": "│  └─ ", "d": "└─ ", "e": ""}


def test_a_tree_that_is_too_deep_to_draw_has_numbers() -> None:
    """Lines as long as the terminal is wide help nobody."""
    lines = guides((f"q{i}", (f"q{i + 1}",)) for i in range(DEEPEST_DRAWN + 5))
    assert lines[f"q{DEEPEST_DRAWN}"].endswith("└─ ")
    assert lines[f"q{DEEPEST_DRAWN + 1}"] == f"⋯ level {DEEPEST_DRAWN + 1}: "
