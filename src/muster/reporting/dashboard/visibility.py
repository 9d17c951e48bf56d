"""What a viewer may see of rows and pages: nodes and queues whole, of gangs those of some namespaces.

Rule: a name of another namespace, or of anything in it, is in nothing that such a viewer gets. Sentences name gangs
and pods as `namespace/name`: those of other namespaces are replaced in them.
"""

import re
from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from muster.reporting.dashboard.cycles import RecordedCycle, cycle_row
from muster.reporting.dashboard.gangs import encode
from muster.reporting.dashboard.rows import CycleRow, GangEvent, GangPage, GangRow, NodePage, NodeRow, TextLine, Use

# `namespace/name`, and not the end of a longer path
QUALIFIED = re.compile(r"(?<![\w./-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?")
ELSEWHERE = "(in another namespace)"


class NamespaceFilter:
    """What a viewer of some namespaces may see; `others`: the namespaces that are known beside them.

    `path_roots`: what labels and domains begin with; other paths in a sentence name something in a namespace, be it one
    that is gone: statuses and events are older than this process.
    """

    def __init__(self, namespaces: Collection[str], others: Collection[str], path_roots: Collection[str] = ()) -> None:
        self.namespaces = frozenset(namespaces)
        self._others = frozenset(others) - self.namespaces
        self._harmless = self.namespaces | frozenset(path_roots) - self._others

    def sees(self, key: str) -> bool:
        """Whether a gang or pod, by namespace/name, is of one of the namespaces."""
        return key.partition("/")[0] in self.namespaces

    def redact(self, sentence: str) -> str:
        """A sentence without names of other namespaces."""
        return QUALIFIED.sub(lambda match: match[0] if self._is_harmless(match) else ELSEWHERE, sentence)

    def _is_harmless(self, match: re.Match[str]) -> bool:
        return match[1] in self._harmless or (match[1].isdigit() and match[1] not in self._others)

    def _redact_known(self, line: str) -> str:
        """A line about the last plan: it names no namespace that is not known, and draws trees of any names."""
        return QUALIFIED.sub(lambda match: ELSEWHERE if match[1] in self._others else match[0], line)

    # rows

    def node(self, row: Raw) -> Raw:
        """A node: gangs of other namespaces together, without a name."""
        decoded = msgspec.json.decode(row, type=NodeRow)
        return encode(self._node(decoded)) if any(use[0] for use in decoded.used) else row

    def _node(self, row: NodeRow) -> NodeRow:
        totals: dict[tuple[str, str], dict[str, int]] = {}
        for gang, state, amounts in row.used:
            total = totals.setdefault((gang if self.sees(gang) else "", state), {})
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        used: tuple[Use, ...] = tuple((*key, totals[key]) for key in sorted(totals))  # type: ignore[misc]
        return replace(row, used=used)

    def gang(self, row: Raw) -> Raw:
        """The row of a gang of one of the namespaces."""
        decoded = msgspec.json.decode(row, type=GangRow)
        message = self.redact(decoded.message)
        return row if message == decoded.message else encode(replace(decoded, message=message))

    def gangs(self, rows: Mapping[str, Raw | None]) -> dict[str, Raw | None]:
        """The gangs of the namespaces; None: gone."""
        return {key: None if row is None else self.gang(row) for key, row in rows.items() if self.sees(key)}

    def nodes(self, rows: Mapping[str, Raw | None]) -> dict[str, Raw | None]:
        """Every node; None: gone."""
        return {name: None if row is None else self.node(row) for name, row in rows.items()}

    def cycle(self, record: RecordedCycle) -> CycleRow:
        """What a cycle decided about the namespaces; failures of writes name others, so that they are not counted."""
        row = cycle_row(record, self.namespaces)
        refused = tuple(replace(each, message=self.redact(each.message)) for each in row.refused)
        return replace(row, refused=refused, failures=0)

    # pages

    def node_page(self, page: NodePage) -> NodePage:
        """A node with pods of the namespaces."""
        return replace(
            page, row=self._node(page.row), pods=tuple(pod for pod in page.pods if pod.namespace in self.namespaces)
        )

    def gang_page(self, page: GangPage) -> GangPage:
        """The page of a gang of one of the namespaces."""
        return replace(
            page,
            row=replace(page.row, message=self.redact(page.row.message)),
            explain=tuple(map(self._line, page.explain)),
            helps=tuple(map(self.redact, page.helps)),
            events=tuple(self._events(page.events)),
            history=tuple(replace(each, message=self.redact(each.message)) for each in page.history),
        )

    def _line(self, line: TextLine) -> TextLine:
        return tuple({**piece, "text": self._redact_known(piece["text"])} for piece in line)

    def _events(self, events: Iterable[GangEvent]) -> Iterable[GangEvent]:
        return (replace(each, message=self.redact(each.message)) for each in events)
