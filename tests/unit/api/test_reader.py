"""Files to plain values: scalars as kubectl reads them, anchors and merges, and the place of every mistake."""

import math
from typing import Any

import pytest

from muster.api.codec import to_yaml
from muster.api.reader import DEEPEST, MOST_COPIES, parse_documents
from muster.errors import InputError


def read(text: str, source: str = "file.yaml") -> list[Any]:
    return parse_documents(text.encode(), source)


def only(text: str) -> Any:
    documents = read(text)
    assert len(documents) == 1
    return documents[0]


def wrong(text: str, source: str = "file.yaml") -> str:
    with pytest.raises(InputError) as error:
        read(text, source)
    return str(error.value)


# scalars ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["", "~", "null", "Null", "NULL"])
def test_nothing_is_null(word: str) -> None:
    """The five ways of YAML 1.1."""
    assert only(f"a: {word}") == {"a": None}


@pytest.mark.parametrize("word", ["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"])
def test_words_of_yes_are_true(word: str) -> None:
    """kubectl reads YAML 1.1: `on: yes` is a boolean, and a label must be quoted."""
    assert only(f"a: {word}")["a"] is True


@pytest.mark.parametrize("word", ["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"])
def test_words_of_no_are_false(word: str) -> None:
    """Norway must be quoted."""
    assert only(f"a: {word}")["a"] is False


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("0", 0), ("7", 7), ("-7", -7), ("+7", 7), ("1_000", 1000), ("1__0", 10), ("1_", 1), ("0_", 0)),
        *(("0777", 511), ("-017", -15), ("0o777", 511), ("0x1f", 31), ("0xFF", 255), ("-0x1f", -31), ("0x_f", 15)),
        *(("0b101", 5), ("-0b11", -3), ("9223372036854775808", 2**63), ("0" * 3 + "7", 7)),
    ],
)
def test_whole_numbers_in_every_base(word: str, value: int) -> None:
    """Underscores are for the eye; a leading zero is octal."""
    number = only(f"a: {word}")["a"]
    assert (number, type(number)) == (value, int)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("1.5", 1.5), ("-1.5", -1.5), ("+1.5", 1.5), (".5", 0.5), ("-.5", -0.5), ("1.", 1.0), ("1e3", 1000.0)),
        *(
            ("1E3", 1000.0),
            ("1e+3", 1000.0),
            ("1e-3", 0.001),
            (".5e1", 5.0),
            ("1_0.5", 10.5),
            ("08", 8.0),
            ("09.5", 9.5),
        ),
        *((".inf", math.inf), ("-.inf", -math.inf), ("+.Inf", math.inf), (".INF", math.inf)),
    ],
)
def test_numbers_with_a_point_or_an_exponent(word: str, value: float) -> None:
    """`08` is no octal number, so it is a decimal one."""
    number = only(f"a: {word}")["a"]
    assert (number, type(number)) == (value, float)


@pytest.mark.parametrize("word", [".nan", ".NaN", ".NAN"])
def test_not_a_number(word: str) -> None:
    """YAML has a word for it."""
    assert math.isnan(only(f"a: {word}")["a"])


@pytest.mark.parametrize(
    "word",
    [
        *("2026-01-01", "2026-01-01T00:00:00Z", "1:30", "190:20:30", "0o8", "0x", "0xg", "0x_", "0b_", "0b2", "0o_"),
        *("1e", "1e+", "e3", ".", "..", "+", "-a", "+.", "._1", "1.2.3", "10.0.0.1", "1-2", "v1", "_1", "nULL", "tRUE"),
        *("-.nan", ".iNf", "-i.nf", "+inf.", "inf", "nan", "12h", "1Gi", "=", "a b", "a:b", "a#b", "é", "😀"),
    ],
)
def test_everything_else_is_text(word: str) -> None:
    """Dates, times, versions and quantities among it."""
    assert only(f"a: {word}") == {"a": word}


@pytest.mark.parametrize("word", ["1e400", "-1e400", "9" * 350 + ".0"], ids=lambda word: word[:8])
def test_a_number_that_no_float_holds_is_text(word: str) -> None:
    """Reading it as infinity would be a silent change; kubectl leaves it as text too."""
    assert only(f"a: {word}") == {"a": word}


@pytest.mark.parametrize("word", ["1", "true", "~", "null", "1e3", "0x1f", "<<", ""])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_quotes_make_text(word: str, quote: str) -> None:
    """As a value and as a key."""
    text = f"{quote}{word}{quote}"
    assert only(f"a: {text}") == {"a": word}
    assert only(f"{text}: a") == {word: "a"}


@pytest.mark.parametrize("word", ["1", "true", "yes", "1.5", "0x1f", "2026-01-01", "on"])
def test_keys_are_always_text(word: str) -> None:
    """Objects have names of fields, not numbers: a key is what was written."""
    assert only(f"{word}: a") == {word: "a"}


def test_blocks_keep_or_fold_their_lines() -> None:
    """Scripts in annotations come through as they are."""
    assert only("a: |\n  x\n  y\nb: >\n  x\n  y\nc: |-\n  1\n") == {"a": "x\ny\n", "b": "x y\n", "c": "1"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("!!str 1", "1"),
            ("!!str", ""),
            ("!!int 7", 7),
            ("!!float 7", 7.0),
            ("!!float 1.5", 1.5),
            ("!!bool yes", True),
        ),
        *(("!!null ~", None), ("! 7", 7), ("!!map {b: c}", {"b": "c"}), ("!!seq [b]", ["b"])),
    ],
)
def test_the_tags_of_yaml_itself_are_understood(text: str, value: object) -> None:
    """They say what plain words would mean."""
    tagged = only(f"a: {text}")["a"]
    assert (tagged, type(tagged)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    ["!!int x", "!!int 1.5", "!!bool 1", "!!null x", "!!binary aGk=", "!!set {a}", "!mine 1", "!mine {}"],
)
def test_other_tags_are_refused(text: str) -> None:
    """A manifest is plain data."""
    assert wrong(f"\na: {text}").startswith("file.yaml, line 2: ")


# anchors and merges -------------------------------------------------------------------------------------------------


def test_an_alias_is_a_copy() -> None:
    """Changing one part of an object must never change another."""
    document = only("a: &a {x: [1]}\nb: *a\nc: [*a, *a]")
    assert document == {"a": {"x": [1]}, "b": {"x": [1]}, "c": [{"x": [1]}, {"x": [1]}]}
    document["a"]["x"].append(2)
    document["c"][0]["x"].append(3)
    assert document["b"] == document["c"][1] == {"x": [1]}


def test_an_anchor_may_be_a_scalar_or_a_key() -> None:
    """Names are often written once and repeated."""
    assert only("a: &a 7\nb: *a") == {"a": 7, "b": 7}
    assert only("&k key: 1\nb: *k") == {"key": 1, "b": "key"}


def test_the_last_anchor_of_a_name_counts() -> None:
    """YAML allows to use a name again."""
    assert only("a: &x 1\nb: *x\nc: &x 2\nd: *x") == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_anchors_end_with_their_document() -> None:
    """Each document stands by itself."""
    assert "`*a` refers to itself or to nothing" in wrong("a: &a 1\n---\nb: *a")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<<: {a: 1}\nb: 2", {"b": 2, "a": 1}),
        ("a: 0\n<<: {a: 1, b: 1}", {"a": 0, "b": 1}),
        ("<<: {a: 1, b: 1}\na: 0", {"a": 0, "b": 1}),
        ("<<: [{a: 1}, {a: 2, b: 2}]", {"a": 1, "b": 2}),
        ("<<: {<<: {a: 1}, b: 2}", {"b": 2, "a": 1}),
        ("<<: []", {}),
    ],
)
def test_a_merge_fills_in_what_is_not_stated(text: str, value: object) -> None:
    """What stands there wins, then the first of the merged mappings."""
    assert only(text) == value


def test_what_was_merged_is_a_copy_too() -> None:
    """As with any alias."""
    document = only("base: &base {x: [1]}\none: {<<: *base}\ntwo: {<<: *base}")
    document["one"]["x"].append(2)
    assert document["two"] == document["base"] == {"x": [1]}


@pytest.mark.parametrize("merged", ["1", "text", "~", "[1]", "[{a: 1}, 2]"])
def test_only_mappings_can_be_merged(merged: str) -> None:
    """Anything else is a mistake, and has a place."""
    assert wrong(f"x: 1\ny:\n  <<: {merged}\n").startswith("file.yaml, line 3: `<<` merges mappings only")


def test_a_merge_in_json_is_a_key_like_any_other() -> None:
    """JSON has no merges."""
    assert read('{"<<": {"a": 1}}', "file.json") == [{"<<": {"a": 1}}]


def test_anchors_multiply_only_so_far() -> None:
    """The limit counts values, wherever the copies are made."""
    fits = f"a: &a [{', '.join(['x'] * 999)}]\nb: [{', '.join(['*a'] * (MOST_COPIES // 1000))}]"
    assert len(only(fits)["b"]) == MOST_COPIES // 1000
    assert "anchors multiply this file" in wrong(fits + "\nc: *a")


# documents ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        *(("", []), ("# only a comment", []), ("---\n---\n", []), ("~", []), ("null\n---\na: 1", [{"a": 1}])),
        *(
            ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
            ("---\na: 1\n...\n", [{"a": 1}]),
            ("%YAML 1.1\n---\na: 1", [{"a": 1}]),
        ),
        *(
            ('{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}]),
            ('{"a": 1}\n\n{"b": 2}\n', [{"a": 1}, {"b": 2}]),
            ("[1, 2]", [[1, 2]]),
        ),
        *(
            ("{a: 1}", [{"a": 1}]),
            ("{a: 1}\n---\n{b: 2}", [{"a": 1}, {"b": 2}]),
            ('{"a": 1}\n---\nb: 2', [{"a": 1}, {"b": 2}]),
        ),
        *(("\ufeffa: 1", [{"a": 1}]), ("a: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}]), ("  {a: 1}", [{"a": 1}])),
    ],
)
def test_a_file_may_hold_many_documents(text: str, values: list[Any]) -> None:
    """Empty ones are left out; JSON may stand one after the other; flow YAML is not taken for JSON."""
    assert read(text) == values


# mistakes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3", "file.yaml, line 3: key `a` stands twice in one mapping"),
        ("x:\n- a: 1\n  b: 2\n  b: 3", "file.yaml, line 4: key `b` stands twice in one mapping"),
        ("a: 1\n---\nb: 1\n'b': 2", "file.yaml, line 4: key `b` stands twice in one mapping"),
        ("a: &a [*a]", "file.yaml, line 1: `*a` refers to itself or to nothing"),
        ("a: 1\n~: 2", "file.yaml, line 2: a key is missing before `:`"),
        ("a: 1\n? [b]\n: 2", "file.yaml, line 2: a mapping or list cannot be a key"),
        ("a: &a b\n*a : 2", "file.yaml, line 2: an alias cannot be a key"),
        ("a:\n  - b\n c: d", "file.yaml, line 3: not valid YAML: "),
        ("a: 1\n\tb: 2", "file.yaml, line 2: not valid YAML: "),
        ("a: [1, 2", "file.yaml, line 2: not valid YAML: "),
        ("a: \x07", "file.yaml: not valid YAML: "),
        ("a: b: c", "file.yaml, line 1: not valid YAML: "),
        (f"a: 1\nb: {'9' * 401}", "file.yaml, line 2: a number of 401 characters is too long"),
        (f"a: {'[' * DEEPEST}", f"file.yaml, line 1: nested deeper than {DEEPEST} levels"),
        ("a: \x00", "file.yaml: not a text file: it holds NUL bytes"),
    ],
)
def test_a_mistake_in_yaml_has_a_line(text: str, says: str) -> None:
    """The reader of the message is in an editor, and wants to jump there."""
    assert wrong(text).startswith(says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1,\n "b": }', "file.json, line 2: not valid JSON: "),
        ('{"a": 1}\n{"b"', "file.json, line 2: not valid JSON: "),
        ("{a: 1}", "file.json, line 1: not valid JSON: "),
        ('{"a": {"b": 1, "b": 2}}', "file.json: key `b` stands twice in one object"),
        ('{"a": NaN}', "file.json: `NaN` is not a JSON value"),
        ('{"a": -Infinity}', "file.json: `-Infinity` is not a JSON value"),
        (f'{{"a": {"9" * 401}}}', "file.json: a number of 401 digits is too long"),
        (f"{'[' * (DEEPEST + 1)}{']' * (DEEPEST + 1)}", f"file.json: nested deeper than {DEEPEST} levels"),
        ("[" * 100_000, f"file.json: nested deeper than {DEEPEST} levels"),
    ],
)
def test_a_mistake_in_json_is_reported_as_json(text: str, says: str) -> None:
    """A file that calls itself JSON is not tried as YAML."""
    assert wrong(text, "file.json").startswith(says)


def test_nesting_up_to_the_limit_is_read() -> None:
    """In both languages, lists and objects alike."""
    assert read("[" * DEEPEST + "]" * DEEPEST, "file.json")
    assert read("a: " + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1))


@pytest.mark.parametrize("data", [b"\xff\xfea\x00", b"\x89PNG", b"a: \xe9", b"\xc3\x28"])
def test_what_is_not_utf8_is_not_text(data: bytes) -> None:
    """The position of the first such byte is told."""
    with pytest.raises(InputError, match=r"^file.yaml: not a text file: byte \d is not UTF-8"):
        parse_documents(data, "file.yaml")


def test_half_a_surrogate_pair_is_not_text() -> None:
    """JSON can say it, UTF-8 cannot: it would break whoever writes the object out again."""
    for text in ('{"a": "\\ud800"}', '{"\\udfff": 1}', '{"a": ["x\\ud800y"]}'):
        assert wrong(text, "file.json").startswith("file.json")
    assert read('{"a": "\\ud83d\\ude00"}', "file.json") == [{"a": "😀"}]


@pytest.mark.parametrize("word", ["y", "Y", "n", "N"])
def test_a_single_letter_is_text(word: str) -> None:
    """Parsers disagree about these: they are read as what they look like, and quoted on the way out."""
    assert only(f"a: {word}") == {"a": word}
    assert to_yaml([{"a": word}]) == f"a: '{word}'\n"
