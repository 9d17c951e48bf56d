"""What muster writes, it reads back as the same value: text stays text, numbers stay numbers."""

import math
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.codec import to_json, to_yaml
from muster.api.reader import parse_documents
from muster.errors import InputError
from tests.property.trees import Dice, dice

# Text that some YAML parser somewhere takes for something else.
WORDS = (
    *(
        "1e3",
        "1E3",
        "1e+3",
        ".5e3",
        "+.5",
        "-.5e-3",
        "1.",
        "0.",
        "08",
        "09",
        "0_8",
        "007",
        "0o17",
        "0x1f",
        "-0x1f",
        "0b11",
    ),
    *(
        "0x_",
        "0b_",
        "0o_",
        "1_000",
        "1__0",
        "_1",
        "-_1",
        "+_1",
        "1:30",
        "190:20:30",
        "2026-01-01",
        "2026-01-01T00:00:00Z",
    ),
    *(
        "yes",
        "No",
        "ON",
        "off",
        "y",
        "N",
        "true",
        "FALSE",
        "tRUE",
        "null",
        "NULL",
        "Null",
        "~",
        "",
        " ",
        "\t",
        "<<",
        "=",
    ),
    *(
        ".inf",
        "-.INF",
        "+.Inf",
        ".iNf",
        "-i.nf",
        "+inf.",
        ".nan",
        ".NaN",
        ".",
        "..",
        "...",
        "-",
        "--",
        "---",
        "+",
        "e3",
        "1e",
    ),
    *(
        "a: b",
        "a:",
        ":a",
        "- a",
        "# a",
        "a #b",
        "!a",
        "!!int 1",
        "&a",
        "*a",
        "@a",
        "`a`",
        "%a",
        "{a",
        "[a",
        "]",
        "}",
        "|",
        ">",
    ),
    *(
        "a\nb",
        "a\n",
        "\na",
        "a\n\n",
        " a",
        "a ",
        "a\r\nb",
        "a\rb",
        "a\tb",
        "\x85",
        "a\u2028b",
        "\ufeff",
        "\x07",
        "\x7f",
        "é",
        "😀",
    ),
    *("'", '"', "\\", "a'b", 'a"b', "\\n", "1" * 401, "1-" * 300, "x" * 5000, "a b " * 100, "\u00a0", "\U0010ffff"),
)
ALPHABET = "+-._0123456789eExXbBoOinfanNyY:~<= \n'\"#"
words = st.one_of(st.sampled_from(WORDS), st.text(st.sampled_from(ALPHABET), max_size=6), st.text(max_size=12))


def value(drawn: Dice, deepest: int = 3) -> Any:
    """A JSON value with text of the kinds above."""
    match drawn.roll(7 if deepest else 5):
        case 0:
            return drawn.one_of((None, True, False, 0, -1, 2**63, 10**30))
        case 1:
            return "".join(drawn.one_of(ALPHABET) for _ in range(drawn.roll(7)))
        case 2:
            return int.from_bytes((drawn.roll(256) for _ in range(1 + drawn.roll(9))), "little", signed=True)
        case 3:
            number: float = struct.unpack("d", bytes(drawn.roll(256) for _ in range(8)))[0]
            return number if math.isfinite(number) else 0.1
        case 5:
            return [value(drawn, deepest - 1) for _ in range(drawn.roll(4))]
        case 6:
            return {str(value(drawn, 0)): value(drawn, deepest - 1) for _ in range(drawn.roll(4))}
        case _:
            return drawn.one_of(WORDS)


values = dice().map(value)


def alike(one: Any, other: Any) -> bool:
    """Equal, and of the same type all the way down: for Python, 1, 1.0 and True are equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def read_back(*written: Any) -> list[Any]:
    return parse_documents(to_yaml(written).encode(), "x")


@given(values)
def test_a_value_written_as_yaml_reads_back_the_same(written: Any) -> None:
    """A conversion writes files that people apply: whatever it does not change must not change."""
    value_read = read_back({"value": written})
    assert alike(value_read, [{"value": written}]), to_yaml([{"value": written}])


@given(words)
def test_any_text_may_be_a_key(word: str) -> None:
    """Labels and annotations have keys of all kinds."""
    assert alike(read_back({word: word}), [{word: word}]), to_yaml([{word: word}])


@pytest.mark.parametrize("word", WORDS, ids=lambda word: repr(word)[:30])
def test_text_that_looks_like_something_else_stays_text(word: str) -> None:
    """One case each, so that a failure names the word: as a value, as a key, in a list and alone."""
    for written in (word, {word: word}, [word], [[word]], {"a": {"b": word}}):
        value_read = read_back(written)
        assert alike(value_read, [written]), to_yaml([written])


@given(st.lists(values.filter(lambda value: value is not None), max_size=3))
def test_several_documents_stay_apart(several: list[Any]) -> None:
    """`---` between them is enough, whatever they are; only an empty document is none."""
    assert alike(read_back(*several), several)


@given(st.lists(values.map(lambda value: {"value": value}), max_size=3))
def test_json_values_read_back_the_same(several: list[Any]) -> None:
    """JSON is read by a reader of its own, one value after the other."""
    text = "\n".join(to_json(value) for value in several)
    assert alike(parse_documents(text.encode(), "x.json"), several)


@given(st.one_of(words, st.text(st.sampled_from(ALPHABET + "{}[],&*!|>-?%@`\t\\"), max_size=24)))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever is in a file, the answer is documents or an InputError, never anything else."""
    with suppress(InputError):
        parse_documents(text.encode(), "x")
