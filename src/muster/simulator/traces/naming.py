"""Names of a file as names that Kubernetes accepts, each once."""

import re
from collections import Counter

LONGEST = 40


class Namer:
    """Names that differ; `prefix` is for rows without one."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._number = prefix, 0
        self._used: Counter[str] = Counter()

    def name(self, text: str) -> str:
        """The name of the next row."""
        base = as_name(text) or f"{self._prefix}-{self._number}"
        base = f"{self._prefix}-{base}" if base.isdigit() else base
        self._number += 1
        name = base
        while name in self._used:
            self._used[base] += 1
            name = f"{base}-x{self._used[base]}"
        self._used[name] = 1
        return name


def as_name(text: str) -> str:
    """Lower-case letters, digits and `-`; empty: nothing of it is left."""
    return re.sub("[^a-z0-9]+", "-", text.lower())[:LONGEST].strip("-")
