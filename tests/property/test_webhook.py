"""The webhook takes whatever is sent to it: an answer or a refusal with a sentence, soon, and never a 500.

300 examples by default, 10,000 at night.
"""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

import muster
from muster.config.settings import Webhook
from muster.validation.context import ValidationContext
from muster.webhook import admission_review as reviews
from muster.webhook import handlers
from tests.property.values import NASTY, cluster, mutants, podgroups, values, with_each_value
from tests.support.admission_reviews import patched, review
from tests.support.asgi import Answered, call
from tests.support.factories import Raw

KNOWN = ValidationContext(muster.objects([*cluster(), podgroups()[0]]))
LIMIT_SECONDS = 5
APP = handlers.build_app(Webhook(convert_older_dialects=True, timeout_seconds=LIMIT_SECONDS), lambda: KNOWN)
PATHS = ("/validate", "/mutate")
REQUESTS = 300 if settings().max_examples <= 1000 else 10_000
many = settings(max_examples=REQUESTS)
ORIGINALS = [*podgroups(), *cluster()]
paths = st.sampled_from(PATHS)


def ask(path: str, body: bytes, **more: Any) -> Answered:
    """Within the limit, however the event loop is."""
    began = time.perf_counter()
    answered = asyncio.run(call(APP, path, body, **more))
    assert time.perf_counter() - began < LIMIT_SECONDS
    return answered


def assert_sensible(answered: Answered) -> None:
    """A review that can be read, or a client's error in one sentence."""
    if answered.status != 200:
        assert answered.status in (400, 404, 405, 413), (answered.status, answered.text)
        assert answered.text.endswith("\n")
        assert "Traceback" not in answered.text
        return
    response = answered.json["response"]
    assert isinstance(response["allowed"], bool)
    assert response["allowed"] or response["status"]["message"]
    assert all(warning.isprintable() for warning in response.get("warnings", ()))


def encoded(value: Any) -> bytes:
    """JSON as far as it goes; what cannot be written is sent in another way."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeError, OverflowError, ValueError):
        return repr(value).encode(errors="replace")


@many
@given(paths, st.binary(max_size=200))
@example("/validate", b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"\xff"}}')
def test_any_bytes_are_answered(path: str, body: bytes) -> None:
    """Anybody who reaches the port may send anything."""
    assert_sensible(ask(path, body))


@many
@given(paths, values())
def test_any_json_is_answered(path: str, value: Any) -> None:
    """JSON that is no review."""
    assert_sensible(ask(path, encoded(value)))


@many
@given(paths, mutants([review(raw) for raw in ORIGINALS] + [review(raw, raw) for raw in ORIGINALS]))
def test_any_mutant_of_a_review_is_answered(path: str, broken: Raw) -> None:
    """Values replaced, removed, doubled and renamed anywhere in a real review."""
    assert_sensible(ask(path, encoded(broken)))


@many
@given(paths, mutants(ORIGINALS), mutants(ORIGINALS), st.sampled_from(ORIGINALS))
def test_any_object_is_judged(path: str, new: Raw, old: Raw, kind: Raw) -> None:
    """A sound review of a broken object: always an answer, and the one that `muster validate` gives."""
    named = review(kind)["request"]["kind"]
    answered = ask(path, encoded(review(new, old, kind=named)))
    assert_sensible(answered)
    judged = (kind["apiVersion"], kind["kind"]) in reviews.VALIDATED_KINDS
    if answered.status == 200 and judged and path == "/validate":
        same = {**new, "apiVersion": kind["apiVersion"], "kind": kind["kind"]}
        is_terminating = isinstance(new.get("metadata"), dict) and new["metadata"].get("deletionTimestamp")
        expected = muster.validate(msgspec.json.decode(encoded(same)), msgspec.json.decode(encoded(old)))
        refused = not is_terminating and any(problem.severity == "error" for problem in expected)
        assert answered.json["response"]["allowed"] == (not refused)


@many
@given(mutants(podgroups()))
def test_what_was_converted_is_in_the_form_of_record(raw: Raw) -> None:
    """A patch leads to an object that needs none."""
    answered = ask("/mutate", encoded(review(raw)))
    if answered.status == 200 and "patch" in answered.json["response"]:
        after = patched(raw, answered.json["response"])
        again = ask("/mutate", encoded(review(after)))
        assert "patch" not in again.json["response"]


@many
@given(st.integers(1, 400), st.sampled_from(["[", '{"a":', '{"request":{"object":']), paths)
@example(100_000, "[", "/validate")
@example(100_000, '{"a":', "/mutate")
def test_depth_is_no_way_in(levels: int, opening: str, path: str) -> None:
    """Neither the decoder nor the rules may run out of stack."""
    closing = "".join("]" if bracket == "[" else "}" for bracket in reversed(opening) if bracket in "[{")
    assert_sensible(ask(path, (opening * levels + "1" + closing * levels).encode()))


def test_a_deep_object_is_judged() -> None:
    """In every place of a review that may hold anything."""
    for levels in (10, 100, 500, 900, 5_000):
        deep = b"[" * levels + b"]" * levels
        for spec in (b'"spec":%s', b'"spec":{"subgroups":%s}', b'"metadata":{"labels":{"a":%s}},"spec":{}'):
            raw = review({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"})
            body = msgspec.json.encode(raw).replace(b'"object":{', b'"object":{' + spec % deep + b",")
            for path in PATHS:
                assert_sensible(ask(path, body))


@many
@given(
    st.dictionaries(
        st.sampled_from(["content-length", "content-type", "transfer-encoding", "expect", "accept"]),
        st.text("abc0123456789-/;=., ", max_size=30),
    ),
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH"]),
    st.sampled_from([*PATHS, "/", "/validate/", "/metrics", "//", "/validate?x"]),
)
def test_any_headers_and_methods_are_answered(headers: dict[str, str], method: str, path: str) -> None:
    """A Content-Length may say anything; what counts is what comes."""
    answered = ask(path, encoded(review(podgroups()[0])), method=method, headers=headers)
    assert answered.status in (200, 307, 400, 404, 405, 413)


# memory -------------------------------------------------------------------------------------------------------------

LEFT_BYTES = 64 * 2**10  # after any number of requests
IN_HAND_BYTES = 4 * 2**20  # for one of them, a few kilobytes long


def odd_reviews() -> Iterator[bytes]:
    """Every nasty value in every place of a real review."""
    for raw in ORIGINALS:
        for broken in with_each_value(review(raw, raw), NASTY):
            yield encoded(broken)


async def send_all(bodies: Sequence[bytes]) -> None:
    for i, body in enumerate(bodies):
        await call(APP, PATHS[i % 2], body)


def test_requests_leave_nothing_behind() -> None:
    """A client that sends bad requests all day takes no memory: as much after the last request as before it."""
    bodies = list(islice(odd_reviews(), REQUESTS))
    assert len(bodies) == REQUESTS
    asyncio.run(send_all(bodies[:300]))  # what is made once
    tracemalloc.start()
    try:
        asyncio.run(send_all(bodies[:300]))
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        asyncio.run(send_all(bodies))
        gc.collect()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < LEFT_BYTES
    assert peak - before < IN_HAND_BYTES
