"""As much of PromQL as it takes to say which metrics a query reads, and which labels of them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SELECTOR = re.compile(r"\s*(?:\{(?P<matchers>[^}]*)\})?")
_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*,?')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_BY = re.compile(r"\bby\s*\(([^)]*)\)\s*\(")
_RANGE = re.compile(r"\[[^\]]*\]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


class Selector(NamedTuple):
    """A metric, with the matchers of its labels."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...] = ()  # label, operator, value

    @property
    def labels(self) -> set[str]:
        return {label for label, _, _ in self.matchers}


def selectors(query: str) -> list[Selector]:
    """Every metric that a query reads."""
    return list(_selectors(_RANGE.sub("", query)))


def _selectors(query: str) -> Iterator[Selector]:
    text = _GROUPING.sub(lambda match: " " * len(match[0]), query)
    strings = [match.span() for match in _STRING.finditer(text)]
    at = 0
    while (name := _NAME.search(text, at)) is not None:
        at = name.end()
        is_function = text[at:].lstrip().startswith("(")
        is_text = any(begin < name.start() < end for begin, end in strings)
        is_number = name.start() > 0 and text[name.start() - 1].isdigit()
        if is_function or is_text or is_number or name[0].lower() in _WORDS:
            continue
        selector = _SELECTOR.match(text, at)
        matchers = selector["matchers"] if selector else None
        if selector is not None and matchers is not None:
            at = selector.end()
        yield Selector(name[0], tuple((match[1], match[2], match[3]) for match in _MATCHER.finditer(matchers or "")))


def grouped(query: str) -> Iterator[tuple[set[str], list[Selector]]]:
    """The labels of each `by (...)`, and the metrics that are aggregated by them."""
    for match in _BY.finditer(query):
        labels = {label.strip() for label in match[1].split(",") if label.strip()}
        yield labels, selectors(_inside(query, match.end()))


def _inside(query: str, at: int) -> str:
    """What stands between a parenthesis that was opened before `at` and its end."""
    depth = 1
    for end in range(at, len(query)):
        depth += {"(": 1, ")": -1}.get(query[end], 0)
        if depth == 0:
            return query[at:end]
    raise AssertionError(f"a parenthesis is not closed in {query}")
