"""What the two processes send each other: frames of msgpack on a socket pair, each with its length in front.

Rule: the one that started the other trusts nothing in a frame but its type: a process that sends anything else is
ended, and started again.
"""

import asyncio
from typing import TypeVar

import msgspec
from msgspec import Struct

from muster.config.settings import Config
from muster.errors import MusterError

LENGTH_BYTES = 4
LONGEST_BYTES = 64 * 2**20
M = TypeVar("M")


class RequestCount(Struct, frozen=True, array_like=True):
    """Pods of one leaf with equal requests."""

    sub_group: str
    requests: tuple[tuple[str, int], ...]
    pods: int


class WebhookStart(Struct, frozen=True):
    """The first frame to the webhook's process: what it is to do, and where the cluster is."""

    config: Config
    kubeconfig: str | None = None
    context: str | None = None


class GangsChanged(Struct, frozen=True):
    """Every further frame to it: what the pods of some gangs request; an encoded list of `RequestCount`."""

    demands: dict[str, bytes]


class AnsweredRequest(Struct, frozen=True, array_like=True):
    """One response of the webhook."""

    path: str
    result: str
    seconds: float


class WebhookReport(Struct, frozen=True):
    """Every frame from it: its health, and what happened since the last one."""

    problems: dict[str, str]  # by the name of the check; empty: it passes
    answered: list[AnsweredRequest] = []
    certificate_expires: float | None = None


class ProtocolError(MusterError):
    """A frame that the other process should not have sent."""


def encode_frame(message: Struct) -> bytes:
    """A message with its length in front."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(LENGTH_BYTES) + data


async def read_frame(reader: asyncio.StreamReader, kind: type[M]) -> M:
    """The next message; EOFError where the other process has ended, ProtocolError where it is something else."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES))
        if length > LONGEST_BYTES:
            raise ProtocolError(f"a frame of {length} bytes, at most {LONGEST_BYTES}")
        data = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise EOFError from None
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"a frame that is no {kind.__name__}: {error}") from None
