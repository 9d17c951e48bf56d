"""What a run with faults leaves: every stored change in the order of its revision, and every write of every replica.

Both are plain values and go through a file of JSON lines, so that a run can be judged again, long after it.
"""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

Raw = dict[str, Any]
UNSENT = ("silent", "refused", "failed", "lost", "abandoned")  # faults with which a request never arrives


class StoredChange(Struct, frozen=True, tag="stored"):
    """One object after one write to etcd; of a deleted object, its last state."""

    revision: int  # one order for all kinds
    at: float  # when it was seen: seconds by the clock of the run
    object: Raw
    is_deleted: bool = False


class SentWrite(Struct, frozen=True, tag="sent"):
    """One request of a replica that writes, as the proxy between it and the API server saw it."""

    replica: str
    method: str
    resource: str
    namespace: str
    name: str
    subresource: str
    body: Raw
    started: float
    ended: float
    status: int = 0  # of the API server's answer; 0: there is none, and the write may have been applied
    revision: int = 0  # of the object in the answer; 0: the answer has none
    is_dry_run: bool = False
    fault: str = ""  # what the proxy did to it

    @property
    def is_refused(self) -> bool:
        """Whether the API server did not apply it, for certain."""
        return self.fault in UNSENT or (300 <= self.status < 500 and self.status != 408)

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300


class RunHistory(Struct, frozen=True):
    """A whole run."""

    changes: tuple[StoredChange, ...]  # by revision; first what was there at the start
    writes: tuple[SentWrite, ...] = ()
    ended: float = 0.0  # when recording stopped

    def save(self, path: Path) -> None:
        """One JSON object a line; the last line says when it ended."""
        lines = [msgspec.json.encode(one) for one in (*self.changes, *self.writes)]
        path.write_bytes(b"\n".join([*lines, msgspec.json.encode(self.ended)]) + b"\n")

    @staticmethod
    def load(path: Path) -> "RunHistory":
        """What `save` wrote."""
        decoder = msgspec.json.Decoder(StoredChange | SentWrite | float)
        records = [decoder.decode(line) for line in path.read_bytes().splitlines()]
        return RunHistory(
            tuple(one for one in records if isinstance(one, StoredChange)),
            tuple(one for one in records if isinstance(one, SentWrite)),
            next(one for one in records if isinstance(one, float)),
        )
