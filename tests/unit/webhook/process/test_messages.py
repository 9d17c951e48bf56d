"""Frames between two processes."""

import asyncio

import pytest

from muster.config import loading
from muster.webhook.process.messages import (
    LENGTH_BYTES,
    LONGEST_BYTES,
    AnsweredRequest,
    ProtocolError,
    WebhookReport,
    WebhookStart,
    encode_frame,
    read_frame,
)

CONFIG = b"""
scheduling: {schedulerNames: [muster, other]}
webhook: {port: 1234, groupPods: true, certificates: {secretName: keys}}
grouping: {kinds: [{apiVersion: example.com/v1, kind: Gadget, resource: gadgets, replicas: .spec.size}]}
"""


def reader_of(*frames: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for frame in frames:
        reader.feed_data(frame)
    reader.feed_eof()
    return reader


async def test_every_setting_arrives() -> None:
    """The other process gets the configuration, not a file that may have changed."""
    start = WebhookStart(loading.read(CONFIG, "config"), "/etc/kubeconfig", "here")
    assert await read_frame(reader_of(encode_frame(start)), WebhookStart) == start


async def test_frames_come_one_by_one_and_then_an_end() -> None:
    """However they were cut on the way."""
    reports = [WebhookReport({"webhook": str(i)}, [AnsweredRequest("/validate", "allowed", 0.1)]) for i in range(3)]
    data = b"".join(map(encode_frame, reports))
    reader = reader_of(*(data[i : i + 7] for i in range(0, len(data), 7)))
    assert [await read_frame(reader, WebhookReport) for _ in reports] == reports
    with pytest.raises(EOFError):
        await read_frame(reader, WebhookReport)


@pytest.mark.parametrize(
    "data",
    [
        (LONGEST_BYTES + 1).to_bytes(LENGTH_BYTES),
        (1).to_bytes(LENGTH_BYTES) + b"\xc1",
        encode_frame(AnsweredRequest("", "", 0.0)),
    ],
)
async def test_anything_else_is_no_report(data: bytes) -> None:
    """Too long, no msgpack, or another message."""
    with pytest.raises(ProtocolError):
        await read_frame(reader_of(data), WebhookReport)


async def test_half_a_frame_is_an_end() -> None:
    """The other process was killed in the middle of it."""
    with pytest.raises(EOFError):
        await read_frame(reader_of(encode_frame(WebhookReport({}))[:-1]), WebhookReport)
