"""Problems as lines, the same wherever an object is validated."""

from collections.abc import Iterable, Iterator

from muster.reporting.text import Line, Span
from muster.validation.problem import Problem


def lines(problems: Iterable[Problem]) -> Iterator[Line]:
    """Where, what and the rule; the hint below."""
    for problem in problems:
        mark = "warning: " if problem.severity == "warning" else ""
        rule = f" ({problem.rule})" if problem.rule else ""
        at = f"{problem.at}: " if problem.at else ""
        yield [Span(f"  {mark}{at}{problem.says}{rule}", "warn" if mark else "bad")]
        if problem.hint:
            yield [Span(f"    hint: {problem.hint}")]
