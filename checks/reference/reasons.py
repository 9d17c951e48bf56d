"""docs/reference/reasons.md: every word that muster gives as a reason, and what to do about it (remedies.yaml)."""

from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml

from checks.reference.tables import row
from muster.planning.refusal import Refusal

HEAD = """\
# Reasons, and what to do

<!-- Made from src/muster/planning/refusal.py and checks/reference/remedies.yaml by `make golden`; change it there. -->

muster never waits in silence. `kubectl describe podgroup`, `muster explain` and `plan -o json` give a reason: one
stable word for programs, and one sentence for people with the numbers of your cluster. This page lists every word. The
sentence beside it often ends with a hint: the smallest change that would place the gang now.

```sh
kubectl get podgroups -A                      # the column REASON
muster explain NAMESPACE/NAME --context mine  # the sentence, and what would help
```
"""


@cache
def remedies() -> dict[str, Any]:
    """The advice, by section."""
    advice: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("remedies.yaml").read_text(encoding="utf-8"))
    return advice


def reference() -> str:
    """The page."""
    gangs = "".join(_refusal(kind.__name__, kind.__doc__ or "") for kind in get_args(Refusal))
    return f"{HEAD}\n## Why a gang waits\n{gangs}" + "".join(map(_table, remedies()["tables"]))


def documented() -> set[str]:
    """Every reason of the page."""
    return set(remedies()["gangs"]).union(*(table["reasons"] for table in remedies()["tables"]))


def _refusal(name: str, means: str) -> str:
    return f"\n### {name}\n\n{means}\n\n**What to do.** {remedies()['gangs'][name]}\n"


def _table(table: dict[str, Any]) -> str:
    reasons = table["reasons"].items()
    rows = "".join(row(f"`{word}`", advice["means"], advice["remedy"]) for word, advice in reasons)
    head = "| reason | what it means | what to do |\n|---|---|---|\n"
    return f"\n## {table['title']}\n\n{table['about']}\n\n{head}{rows}"
