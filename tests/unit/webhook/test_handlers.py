"""The webhook: what it refuses, what it lets pass, and how it answers when it is asked badly."""

import asyncio
import copy
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from structlog.testing import capture_logs

import muster
from muster.api.codec import to_json
from muster.config.settings import Webhook
from muster.observability.metrics import Metrics
from muster.validation.context import ValidationContext
from muster.webhook import admission, handlers, large_bodies
from muster.webhook import admission_review as reviews
from muster.webhook.cluster_context import PODS_SECONDS, ClusterContext
from muster.webhook.pod_review import leave_ungrouped
from tests.property.applied import managed
from tests.property.values import cluster
from tests.support.admission_reviews import patched, review, sent
from tests.support.asgi import Answered, call
from tests.support.factories import Raw, group, pod, podgroup

APP = handlers.build_app(Webhook(convert_older_dialects=True))
QUEUE: Raw = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}}
TOPOLOGY: Raw = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]},
}
BROKEN = podgroup(group("a"), group("b", 1, parent="rolse"), minMember=3, minSubGroup=1)
RUNNING = podgroup(group("a", 2), group("b", 2), minSubGroup=1, preemptibility="semi-preemptible") | {
    "status": {"phase": "Running", "running": 4}
}


async def ask(raw: Any, old: Any = None, *, path: str = "/validate", app: Starlette = APP, **more: Any) -> Raw:
    """The response to a review."""
    answered = await call(app, path, sent(raw, old, **more))
    assert answered.status == 200, answered.text
    reply = answered.json
    assert (reply["apiVersion"], reply["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Raw = reply["response"]
    assert response["uid"] == review(raw)["request"]["uid"]
    return response


# what is judged -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [podgroup(minMember=3), QUEUE, TOPOLOGY], ids=lambda raw: str(raw["kind"]))
async def test_a_good_object_passes_without_a_word(raw: Raw) -> None:
    """Nothing but the uid and yes."""
    assert await ask(raw) == {"uid": review(raw)["request"]["uid"], "allowed": True}


async def test_every_problem_is_reported_at_once() -> None:
    """V: in the message for people, and as causes for programs; each with its path and a way out."""
    response = await ask(BROKEN)
    problems = [problem for problem in muster.validate(BROKEN) if problem.severity == "error"]
    assert len(problems) > 2
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["message"].startswith("podgroup `team/gang` is invalid\n")
    assert status["details"] | {"causes": []} == {
        "name": "gang",
        "group": "scheduling.run.ai",
        "kind": "PodGroup",
        "causes": [],
    }
    assert [cause["field"] for cause in status["details"]["causes"]] == [problem.at for problem in problems]
    for problem, cause in zip(problems, status["details"]["causes"], strict=True):
        assert f"{problem.at}: {problem.says}" in status["message"]
        assert problem.hint in status["message"]
        assert problem.says in cause["message"]
        assert problem.hint in cause["message"]


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        (QUEUE | {"spec": {"resources": {"gpus": {"quota": 1}}}}, "spec.resources.gpus"),
        (QUEUE | {"spec": {"parentQueue": "team"}}, "spec.parentQueue"),
        (TOPOLOGY | {"spec": {"levels": []}}, "spec.levels"),
        (podgroup(minMember="three"), "spec.minMember"),
        (podgroup(minMember=0), "spec.minMember"),
    ],
)
async def test_all_three_kinds_are_refused_by_their_rules(raw: Raw, at: str) -> None:
    """The rules are those of `muster validate`."""
    causes = (await ask(raw))["status"]["details"]["causes"]
    assert at in [cause["field"] for cause in causes]


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_deletes_and_connects_pass(operation: str) -> None:
    """There is nothing to judge: no object comes with them."""
    assert (await ask(None, operation=operation, oldObject=BROKEN))["allowed"]


async def test_other_kinds_pass() -> None:
    """A webhook that is asked too much does no harm."""
    assert (await ask({"apiVersion": "v1", "kind": "Pod", "metadata": {}}))["allowed"]
    assert (await ask({"apiVersion": "example.com/v1", "kind": "PodGroup", "spec": 3}))["allowed"]


async def test_our_kind_in_another_version_is_refused() -> None:
    """It would be stored, and nobody would schedule it."""
    response = await ask(podgroup(minMember=1) | {"apiVersion": "scheduling.run.ai/v9"})
    assert "muster does not know PodGroup in `scheduling.run.ai/v9`" in response["status"]["message"]


async def test_status_is_not_judged() -> None:
    """Its writer is muster itself."""
    assert (await ask(BROKEN, BROKEN, subResource="status"))["allowed"]


async def test_the_request_says_what_an_object_is() -> None:
    """An object that leaves out or changes its kind is judged all the same."""
    hidden = {"metadata": {"name": "g"}, "spec": {"minMember": 0}, "kind": "Pod", "apiVersion": "v1"}
    kind = {"group": "scheduling.run.ai", "version": "v2alpha2", "kind": "PodGroup"}
    assert not (await ask(hidden, kind=kind))["allowed"]


# updates --------------------------------------------------------------------------------------------------------------


async def test_what_was_broken_already_may_be_updated_with_a_warning() -> None:
    """V4: the ratchet."""
    stored = podgroup(group("x", 2), group("a", 1, parent="x"), group("b", 1, parent="x"))
    changed = copy.deepcopy(stored)
    changed["spec"]["queue"] = "team"
    assert not (await ask(changed))["allowed"]
    response = await ask(changed, stored)
    assert response["allowed"]
    assert any("as the stored one already does" in warning for warning in response["warnings"])


async def test_a_running_semi_preemptible_gang_keeps_its_minimum() -> None:
    """V5: raising is refused, lowering is not."""
    raised, lowered = copy.deepcopy(RUNNING), copy.deepcopy(RUNNING)
    raised["spec"]["minSubGroup"] = 2
    lowered["spec"]["subGroups"][0]["minMember"] = 1
    (cause,) = (await ask(raised, RUNNING))["status"]["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.minSubGroup", "FieldValueForbidden")
    assert (await ask(lowered, RUNNING))["allowed"]


async def test_a_terminating_object_may_lose_its_finalizers() -> None:
    """Or an object that nobody would accept today could never go."""
    terminating = copy.deepcopy(BROKEN)
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert (await ask(terminating, terminating))["allowed"]


# warnings -------------------------------------------------------------------------------------------------------------


async def test_doubtful_objects_pass_with_warnings() -> None:
    """V6: `kubectl` shows each on a line of its own."""
    doubtful = podgroup(group("leader", 1), *(group(f"workers-{i}", 1) for i in range(3)), minSubGroup=3)
    response = await ask(doubtful)
    assert response["allowed"]
    (warning,) = response["warnings"]
    assert warning.startswith("spec.minSubGroup: 3 of 4 may leave out every `leader`")
    assert "\n" not in warning


async def test_warnings_are_short_few_and_printable() -> None:
    """The API server cuts what is longer, and refuses control characters in a header."""
    doubtful = podgroup(minMember=1)
    doubtful["spec"] |= {f"minMembe{letter}": 1 for letter in "abcdefghijklmnopqstuvwxyz"} | {"minMember\x07": 1}
    response = await ask(doubtful)
    assert response["warnings"][-1] == "… and 6 more warnings"
    assert len(response["warnings"]) == 21
    assert all(warning.isprintable() and len(warning) <= 250 for warning in response["warnings"])


async def test_what_may_still_come_is_a_warning() -> None:
    """T6: `kubectl apply -f folder/` has no order; the gang waits with the reason until its Topology is there."""
    known = ValidationContext(muster.objects(cluster()))
    app = handlers.build_app(Webhook(), lambda: known)
    constraint = {"topology": "blocks", "requiredTopologyLevel": "rack"}
    response = await ask(podgroup(minMember=1, topologyConstraint=constraint), app=app)
    assert response["allowed"]
    assert any("blocks" in warning for warning in response["warnings"])
    response = await ask(podgroup(minMember=0, topologyConstraint=constraint), app=app)
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.minMember"]
    assert any("blocks" in warning for warning in response["warnings"])


async def test_ten_thousand_problems_are_counted() -> None:
    """An answer that nobody can read helps nobody."""
    response = await ask(podgroup(*(group(f"g{i}") for i in range(1_000))))
    assert len(response["status"]["details"]["causes"]) == 200
    assert response["status"]["message"].endswith("… and 800 more")


# conversion -----------------------------------------------------------------------------------------------------------

OLDER = podgroup(minMember=2) | {"spec": {"minMember": 2, "subgroups": [group("a", 3), group("b", 4)], "x/y~z": 1}}


async def test_older_dialects_are_converted() -> None:
    """D1, D4: the patch gives what `muster convert` gives, touches nothing else, and the result is valid."""
    response = await ask(OLDER, path="/mutate")
    assert response["allowed"]
    assert response["patchType"] == "JSONPatch"
    after = patched(OLDER, response)
    assert after["spec"] == {"minSubGroup": 2, "subGroups": OLDER["spec"]["subgroups"], "x/y~z": 1}
    assert after["metadata"] == OLDER["metadata"]
    assert (await ask(after))["allowed"]
    assert response["warnings"][0] == "converted: `spec.subgroups` is now `spec.subGroups` (D4)"


async def test_what_can_be_read_two_ways_is_left_alone() -> None:
    """D5: mutating never guesses; validating says how it is read (M5)."""
    doubtful = podgroup(group("a", 1), group("b", 1), minMember=2)
    response = await ask(doubtful, path="/mutate")
    assert response["allowed"]
    assert "patch" not in response
    assert response["warnings"][0].startswith(
        "not converted: can be read two ways: spec.minMember: 2 is either 2 of 2 children (`minSubGroup: 2`), or "
    )
    validated = await ask(doubtful)
    assert validated["allowed"]
    assert validated["warnings"][0].startswith("spec.minMember: all 2 top subGroups are needed, and 2 pods in all (M5)")


async def test_the_form_of_record_is_not_touched() -> None:
    """And costs no word."""
    for raw in (podgroup(group("a", 1), minSubGroup=1), QUEUE, TOPOLOGY):
        assert set(await ask(raw, path="/mutate")) == {"uid", "allowed"}


async def test_a_stored_older_form_keeps_its_meaning() -> None:
    """V4: an update of another field must not read `minMember` in a new way in passing."""
    stored = podgroup(group("a", 8), group("b", 8), group("c", 8), minMember=2)
    changed = copy.deepcopy(stored)
    changed["spec"]["queue"] = "team"
    assert "patch" in await ask(changed, path="/mutate")
    assert "patch" not in await ask(changed, stored, path="/mutate")
    converted = patched(stored, await ask(stored, path="/mutate"))
    assert "patch" in await ask(stored, converted, path="/mutate")


async def test_conversion_is_an_option() -> None:
    """Off, everything passes as it is: a webhook configuration may be there before muster has heard of it."""
    assert set(await ask(OLDER, path="/mutate", app=handlers.build_app(Webhook()))) == {"uid", "allowed"}


FOUR = [group(name, 8) for name in "abcd"]


def applied(spec: Raw, **stated: Any) -> Raw:
    """A stored PodGroup with a manifest laid over it, which one manager states."""
    raw = podgroup() | {"spec": spec}
    raw["metadata"] = raw["metadata"] | {"uid": "7", "managedFields": managed(stated)}
    return raw


async def test_an_edit_of_an_older_manifest_is_not_thrown_away() -> None:
    """D1: `minMember` beside the `minSubGroup` that was made of it is the newer word of the two."""
    stored = applied({"minSubGroup": 2, "subGroups": FOUR}, minMember=2, subGroups=FOUR)
    edited = applied({"minSubGroup": 2, "minMember": 3, "subGroups": FOUR}, minMember=3, subGroups=FOUR)
    response = await ask(edited, stored, path="/mutate")
    assert patched(edited, response)["spec"] == {"minSubGroup": 3, "subGroups": FOUR}
    assert response["warnings"] == ["converted: `spec.minMember: 3` is now `minSubGroup`: it counts children (D1)"]


async def test_the_same_older_manifest_again_changes_nothing() -> None:
    """D1, D4: and is allowed."""
    stored = applied({"minSubGroup": 2, "subGroups": FOUR}, minMember=2, subgroups=FOUR)
    again = applied(stored["spec"] | {"minMember": 2, "subgroups": FOUR}, minMember=2, subgroups=FOUR)
    after = patched(again, await ask(again, stored, path="/mutate"))
    assert after["spec"] == stored["spec"]
    assert (await ask(after, stored))["allowed"]


async def test_an_older_field_that_a_manifest_takes_back_is_no_longer_meant() -> None:
    """D1: without `minMember` the manifest means all four; the spec of the request is the stored one, to the letter."""
    stored = applied({"minSubGroup": 2, "subGroups": FOUR}, minMember=2, subGroups=FOUR)
    edited = applied({"minSubGroup": 2, "subGroups": FOUR}, subGroups=FOUR)
    response = await ask(edited, stored, path="/mutate")
    assert patched(edited, response)["spec"] == {"subGroups": FOUR}
    assert response["warnings"] == [
        "converted: `spec.minSubGroup` is gone: it was made of an older form that no manifest states any more"
    ]
    assert "patch" not in await ask(stored, stored, path="/mutate")


@pytest.mark.parametrize("odd", [b'"\xff"', b'[{"manager": "\\ud800"}]', b"[" * 300 + b"]" * 300, b"7", b'{"a": 1}'])
async def test_managed_fields_of_any_shape_are_answered(odd: bytes) -> None:
    """They are not decoded with the rest, and must not end in an error of ours when they are."""
    stored = podgroup() | {"spec": {"minSubGroup": 2, "subGroups": FOUR}}
    edited = podgroup() | {"spec": {"minSubGroup": 2, "minMember": 3, "subGroups": FOUR}}
    edited["metadata"] = edited["metadata"] | {"uid": "7", "managedFields": "HERE"}
    body = sent(edited, stored).replace(b'"HERE"', odd)
    assert (await call(APP, "/mutate", body)).status in (200, 400)


async def test_what_two_managers_say_differently_is_refused_with_both_numbers() -> None:
    """Neither number is dropped: mutating says why it does nothing, and validating refuses (V1)."""
    stored = applied({"minSubGroup": 4, "subGroups": FOUR}, minMember=2, subGroups=FOUR)
    both = applied({"minSubGroup": 4, "minMember": 2, "subGroups": FOUR})
    both["metadata"]["managedFields"] = managed({"minMember": 2, "subGroups": FOUR}, {"minSubGroup": 4})
    response = await ask(both, stored, path="/mutate")
    assert "patch" not in response
    assert response["warnings"][0].startswith(
        "not converted: spec.minMember: 2 of `kubectl` and spec.minSubGroup: 4 of `other-0` exclude each other; hint: "
    )
    refused = await ask(both, stored)
    assert "`minMember: 2` and `minSubGroup: 4` exclude each other" in refused["status"]["message"]


async def test_an_object_that_is_written_whole_says_both_numbers_itself() -> None:
    """D2: `kubectl replace` sends no uid, and what it sends is not laid over anything."""
    stored = applied({"minSubGroup": 2, "subGroups": FOUR}, minMember=2, subGroups=FOUR)
    replaced = applied({"minMember": 16, "minSubGroup": 2, "subGroups": FOUR}, minMember=16)
    del replaced["metadata"]["uid"]
    assert patched(replaced, await ask(replaced, stored, path="/mutate"))["spec"] == stored["spec"]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"minMember": 40, "subGroups": FOUR},
            (
                "not converted: spec.minMember: 40 pods, but all 4 children guarantee only 32; "
                "hint: raise the children's minimums to 40 in all, or lower it to 32"
            ),
        ),
        (
            {"subgroups": FOUR, "subGroups": FOUR},
            "not converted: spec: has both `subgroups` and `subGroups`; hint: keep `subGroups`, with all of them in it",
        ),
        (
            {"subgroups": [group("a", 1), group("a", 1), group("b", 1, parent="c")]},
            (
                "not converted: spec.subGroups[1].name: `a` is already the name of spec.subGroups[0] (hint: give each "
                "SubGroup a name of its own); spec.subGroups[2].parent: `c` is not a subgroup here (hint: known: a, "
                "b); hint: fix these first, then convert"
            ),
        ),
        (
            {"minMember": "two", "subGroups": FOUR},
            "not converted: spec.minMember: expected a whole number, got the text `two`",
        ),
    ],
)
async def test_why_something_is_not_converted_is_one_sentence(spec: Raw, sentence: str) -> None:
    """Where, what and the way out, each apart from the next."""
    (warning,) = (await ask(podgroup() | {"spec": spec}, path="/mutate"))["warnings"]
    assert warning == sentence


def test_unused_fields_are_not_decoded() -> None:
    """`managedFields` are often the larger part of an object; a few conversions look at them."""
    raw = applied({"minMember": 1}, minMember=1)
    raw["metadata"] |= {"selfLink": "/x", "finalizers": ["a"], "labels": {"a": "b"}}
    request = reviews.decode(sent(raw | {"extra": 1}, raw))
    assert request.object["spec"] == {"minMember": 1}
    assert set(request.object) == {"metadata", "spec"}
    assert set(request.object["metadata"]) == {"name", "namespace", "uid", "labels"}
    assert msgspec.json.decode(request.managed) == raw["metadata"]["managedFields"]


def test_a_patch_of_anything_but_objects_replaces_it() -> None:
    """Specs that are no objects are for `validate` to refuse."""
    assert admission.diff_specs(None, None) == []
    assert admission.diff_specs(None, {}) == [{"op": "add", "path": "/spec", "value": {}}]


# asked badly ----------------------------------------------------------------------------------------------------------

GOOD = review(podgroup(minMember=1))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "this is not an AdmissionReview"),
        (b"{", "this is not an AdmissionReview"),
        (b"[]", "this is not an AdmissionReview"),
        (b"\xff\xfe", "this is not an AdmissionReview"),
        (b'{"request": {"uid": 5}}', "this is not an AdmissionReview"),
        (b'{"a": "\\ud800"}', "this is not an AdmissionReview"),
        (b"[" * 100_000, "this is not an AdmissionReview"),
        (b'{"a":' * 50_000, "the review is nested too deeply"),
        (b"{}", "expected an AdmissionReview of `admission.k8s.io/v1`"),
        (GOOD | {"apiVersion": "admission.k8s.io/v1beta1"}, "expected an AdmissionReview of `admission.k8s.io/v1`"),
        (GOOD | {"request": None}, "the review has no `request`"),
        (GOOD | {"request": {}}, "the review has no `request`"),
        (review(podgroup(), operation="PATCH"), "`PATCH` is no operation; known: CREATE"),
        (review(podgroup()) | {"request": review(podgroup())["request"] | {"object": 3}}, "a CREATE without an object"),
        (review(podgroup(), operation="UPDATE"), "an UPDATE without the old object"),
    ],
)
async def test_a_malformed_review_gets_a_sentence(body: bytes | Raw, sentence: str) -> None:
    """400, plain text, one line: the API server shows it to whoever has to mend it."""
    answered = await call(APP, "/validate", body if isinstance(body, bytes) else msgspec.json.encode(body))
    assert answered.status == 400
    assert sentence in answered.text
    assert answered.text.count("\n") == 1
    assert "Traceback" not in answered.text


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/validate", 405), ("POST", "/", 404)])
async def test_other_ways_in_are_shown_the_right_one(method: str, path: str, status: int) -> None:
    """A wrong path in a webhook configuration is a usual mistake."""
    answered = await call(APP, path, method=method)
    assert (answered.status, answered.text) == (status, "nothing here; POST to /validate or /mutate or /group\n")


@pytest.mark.parametrize("stated", [True, False])
async def test_what_is_too_large_is_not_read(stated: bool) -> None:
    """Neither where the length is stated nor where it is not."""
    app = handlers.build_app(Webhook(max_body_bytes=2_000))
    body = sent(podgroup(minMember=1), padding="x" * 5_000)
    headers = {"content-length": str(len(body))} if stated else {}
    answered = await call(app, "/validate", body, headers=headers, pieces=10)
    assert (answered.status, answered.text) == (413, "the review is larger than 2000 bytes\n")


async def test_a_client_that_disconnects_frees_its_slot() -> None:
    """Half a body, and then nothing."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {"type": "http", "method": "POST", "path": "/validate", "headers": [], "query_string": b""}
    await APP(scope, receive, send)
    assert messages[0]["status"] == 400


async def test_a_slow_client_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit holds for reading, too."""
    monkeypatch.setattr(handlers, "_read_body", lambda *_: never())
    app = handlers.build_app(Webhook(timeout_seconds=0))
    answered = await call(app, "/validate", sent(podgroup()))
    assert (answered.status, answered.text) == (504, "no answer within 0 s\n")


async def never() -> AsyncIterator[bytes]:
    await asyncio.sleep(30)
    yield b""


async def pieces(*sent_one_by_one: bytes) -> AsyncIterator[bytes]:
    for piece in sent_one_by_one:
        yield piece


async def test_only_so_many_bytes_of_large_reviews_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a large one is read when there is room; small ones need none."""
    body = sent(podgroup(minMember=1), padding="x" * (handlers.SMALL_BYTES + 10))
    monkeypatch.setattr(handlers, "LARGE_BYTES", 2 * len(body))
    handler = handlers.AdmissionHandler(Webhook(), None)
    read, goes_on = [0], asyncio.Event()

    async def large() -> AsyncIterator[bytes]:
        yield body[:-1]
        read[0] += 1
        await goes_on.wait()
        yield body[-1:]

    waiting = [asyncio.create_task(handler._read_and_respond(admission.validate, large())) for _ in range(5)]
    await asyncio.sleep(0.05)
    assert read[0] == 2
    assert (await handler._read_and_respond(admission.validate, pieces(sent(podgroup(minMember=1)))))[1] == "allowed"
    goes_on.set()
    assert [result for _, result in await asyncio.gather(*waiting)] == ["allowed"] * 5
    assert handler._bodies.size == 0


async def test_a_slow_large_review_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has sent nearly all, and then nothing more; of two, the older goes."""
    body = sent(podgroup(minMember=1), padding="x" * (handlers.SMALL_BYTES + 10))
    monkeypatch.setattr(handlers, "LARGE_BYTES", 2 * len(body))
    monkeypatch.setattr(large_bodies, "SLOW_SECONDS", 0.1)
    handler = handlers.AdmissionHandler(Webhook(), None)
    for path in (handler._read_and_respond, handler._read_and_group):
        judge: Any = admission.validate if path == handler._read_and_respond else leave_ungrouped

        async def slow() -> AsyncIterator[bytes]:
            yield body[:-1]
            await asyncio.sleep(60)

        slow_ones = [asyncio.create_task(path(judge, slow())) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert (await handler._read_and_respond(admission.validate, pieces(body)))[1] == "allowed"
        with pytest.raises(reviews.ReviewError, match="too many large requests"):
            await slow_ones[0]
        assert not slow_ones[1].done()
        slow_ones[1].cancel()
        await asyncio.gather(slow_ones[1], return_exceptions=True)
        assert handler._bodies.size == 0


async def test_a_single_review_may_be_larger_than_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """`maxBodyBytes` decides what is too large."""
    monkeypatch.setattr(handlers, "LARGE_BYTES", 1)
    app = handlers.build_app(Webhook())
    body = sent(podgroup(minMember=1), padding="x" * (handlers.SMALL_BYTES + 10))
    assert (await call(app, "/validate", body, pieces=3)).status == 200


async def test_a_caller_that_leaves_in_the_middle_gives_its_place_back() -> None:
    """Otherwise a few of them would close the door for all large reviews."""
    handler = handlers.AdmissionHandler(Webhook(concurrency=1), None)

    async def half() -> AsyncIterator[bytes]:
        yield b" " * (handlers.SMALL_BYTES + 1)
        raise ClientDisconnect

    for _ in range(3):
        with pytest.raises(ClientDisconnect):
            await handler._read_and_respond(admission.validate, half())
    assert not handler._slots.locked()
    assert handler._bodies.size == 0


async def test_long_work_holds_up_no_other_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large review is judged in a thread: small ones are answered meanwhile, and it is given up in time."""
    real = handlers.respond

    def slow(judge: reviews.Admit, body: bytes) -> tuple[bytes, str]:
        if len(body) > handlers.SMALL_BYTES:
            time.sleep(0.5)
        return real(judge, body)

    monkeypatch.setattr(handlers, "respond", slow)
    app = handlers.build_app(Webhook(timeout_seconds=5))
    large = asyncio.create_task(call(app, "/validate", sent(podgroup(minMember=1), padding="x" * handlers.SMALL_BYTES)))
    await asyncio.sleep(0.05)
    assert (await call(app, "/validate", sent(podgroup(minMember=1)))).status == 200
    assert not large.done()
    assert (await large).status == 200


async def test_work_that_was_given_up_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise callers that try again would pile up threads' work without end."""

    def slow(*_: Any) -> tuple[bytes, str]:
        time.sleep(0.3)
        return b"", "allowed"

    monkeypatch.setattr(handlers, "respond", slow)
    settings = Webhook(concurrency=1)
    handler = handlers.AdmissionHandler(settings, None)
    judge: reviews.Admit = admission.validate
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await handler._read_and_respond(judge, pieces(b" " * (handlers.SMALL_BYTES + 1)))
    assert handler._slots.locked()
    assert handler._bodies.size > 0
    await asyncio.sleep(0.5)
    assert not handler._slots.locked()
    assert handler._bodies.size == 0


async def test_an_internal_error_is_reported_without_details(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 with a sentence, and the rest in the log, with the object and the gang's key."""

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret thing")

    monkeypatch.setattr(admission, "check", broken)
    with capture_logs() as lines:
        for raw in (podgroup(minMember=1), QUEUE):
            answered = await call(APP, "/validate", sent(raw))
            expected = "internal error: ZeroDivisionError; see the log of muster\n"
            assert (answered.status, answered.text) == (500, expected)
    assert [(line["object"], line.get("gang")) for line in lines] == [
        ("podgroup `team/gang`", "team/gang"),
        ("queue `team`", None),
    ]
    assert all(isinstance(line["exc_info"], ZeroDivisionError) for line in lines)


async def test_every_answer_is_counted() -> None:
    """By path and by what was said."""
    metrics = Metrics()
    app = handlers.build_app(Webhook(convert_older_dialects=True), metrics=metrics)
    answers: list[Answered] = [
        await call(app, path, body)
        for path, body in (
            ("/validate", sent(podgroup(minMember=1))),
            ("/validate", sent(BROKEN)),
            ("/validate", b""),
            ("/mutate", sent(OLDER)),
        )
    ]
    assert [answered.status for answered in answers] == [200, 200, 400, 200]
    for path, result in (
        ("/validate", "allowed"),
        ("/validate", "denied"),
        ("/validate", "400"),
        ("/mutate", "patched"),
    ):
        labels = {"path": path, "result": result}
        assert metrics.registry.get_sample_value("muster_webhook_requests_total", labels) == 1
    assert metrics.registry.get_sample_value("muster_webhook_duration_seconds_count", {"path": "/validate"}) == 3


async def test_every_failure_is_counted_and_logged_once_for_its_kind() -> None:
    """A webhook configuration with a wrong path stops every write: the metrics show it, and the log says what came."""
    metrics = Metrics()
    app = handlers.build_app(Webhook(), metrics=metrics)
    with capture_logs() as lines:
        for i in range(3):
            assert (await call(app, f"/wrong-{i}", sent(podgroup()))).status == 404
            assert (await call(app, "/validate", method="GET")).status == 405
            assert (await call(app, "/mutate", b"{")).status == 400
    for path, result in (("other", "404"), ("/validate", "405"), ("/mutate", "400")):
        labels = {"path": path, "result": result}
        assert metrics.registry.get_sample_value("muster_webhook_requests_total", labels) == 3
    assert [(line["path"], line["status"]) for line in lines] == [("other", 404), ("/validate", 405), ("/mutate", 400)]
    assert lines[0]["says"] == "nothing here; POST to /validate or /mutate or /group"


def test_the_largest_podgroup_fits_into_the_limit() -> None:
    """10,000 SubGroups, old and new, and room to spare: nothing that may be stored is refused for its size."""
    large = podgroup(
        *(group(f"subgroup-of-some-length-{i}", 8, parent="all") for i in range(9_999)), group("all", of=1)
    )
    assert 2 * len(to_json(large)) < Webhook().max_body_bytes


# what lies around -----------------------------------------------------------------------------------------------------


def test_names_are_fresh_and_nodes_and_pods_are_looked_up_once() -> None:
    """A Topology that was just created is known at once; which pods a gang has may be a few seconds old."""
    now = [0.0]
    known = [muster.objects(cluster())]
    context = ClusterContext(lambda: ValidationContext(known[0]), lambda: now[0])
    first = context()
    capacity, demands = first.capacity, first.demands
    known[0] = replace(known[0], topologies=(), pods=())
    second = context()
    assert second.topologies == {}
    assert second.capacity is capacity, "no node has changed"
    assert second.demands is demands
    now[0] += PODS_SECONDS
    assert context().demands.of("team/gang") == {}
    known[0] = replace(known[0], nodes=())
    assert context().capacity.node_sizes == ()


def test_pods_are_not_walked_to_find_those_of_one_gang() -> None:
    """Whoever follows a cluster knows them by gang already: with 100,000 pods an index takes a tenth of a second."""

    class Untouched(tuple[Any, ...]):
        __slots__ = ()

        def __iter__(self) -> Any:
            raise AssertionError("all pods are walked")

    known = muster.objects([*cluster(), *(pod(f"large-{i}", "", cpu="1000") for i in range(2))])
    members = {"team/gang": [member for member in known.pods if member.metadata.name.startswith("large")]}
    context = ClusterContext(
        lambda: ValidationContext(replace(known, pods=Untouched()), lambda gang: members.get(gang, ()))
    )
    answer = admission.validate(reviews.decode(sent(podgroup(minMember=2))), context())
    assert any("fit no node of the cluster" in warning for warning in answer.warnings)


async def test_a_live_cluster_without_queues_and_topologies_is_known_to_have_none() -> None:
    """Q2, T6: whoever names one waits for it, and is told; `default` needs no Queue. Of files nothing is known."""
    named = podgroup(minMember=1, queue="team", topologyConstraint={"topology": "racks", "requiredTopologyLevel": "r"})
    plain = podgroup(minMember=1)
    live = handlers.build_app(Webhook(), lambda: ValidationContext(whole=True))
    assert "warnings" not in await ask(plain, app=live)
    response = await ask(named, app=live)
    assert response["allowed"]
    assert [warning.split(" (")[0] for warning in response["warnings"]] == [
        "spec.topologyConstraint.topology: topology `racks` does not exist",
        "spec.queue: queue `team` does not exist: the PodGroup will wait",
    ]
    unnamed = podgroup(minMember=1, topologyConstraint={"requiredTopologyLevel": "rack"})
    (warning,) = (await ask(unnamed, app=live))["warnings"]
    assert "no topology is named, and there is none" in warning
    assert "warnings" not in await ask(named, app=handlers.build_app(Webhook(), ValidationContext))


def test_a_large_cluster_is_not_walked_for_every_request() -> None:
    """110 SubGroups with required levels on 2,000 nodes: seconds where every group looks at every node."""
    labels = [{"zone": f"z{i % 10}", "rack": f"r{i % 200}"} for i in range(2_000)]
    nodes = [cluster()[3] | {"metadata": {"name": f"n{i}", "labels": each}} for i, each in enumerate(labels)]
    leaves = [group(f"g{i}", 2, topologyConstraint={"requiredTopologyLevel": "rack"}) for i in range(110)]
    members = [pod(f"p{i}", f"g{i % 110}", cpu="1") for i in range(880)]
    known = muster.objects([cluster()[2], *nodes, *members])
    gang = podgroup(*leaves)
    context = ClusterContext(lambda: ValidationContext(known))
    admission.validate(reviews.decode(sent(gang, gang)), context())
    began = time.process_time()
    for _ in range(3):
        assert admission.validate(reviews.decode(sent(gang, gang)), context()).allowed
    assert time.process_time() - began < 0.3


async def test_what_is_known_is_looked_up_by_the_loop_and_not_by_a_thread() -> None:
    """The mirror that it comes from belongs to the loop: a thread that reads it could leave it with old lists."""
    seen: list[threading.Thread] = []

    def knows() -> ValidationContext:
        seen.append(threading.current_thread())
        return ValidationContext()

    large = podgroup(*(group(f"leaf-{i}", 1) for i in range(2_000)))
    assert len(sent(large)) > handlers.SMALL_BYTES
    assert (await ask(large, app=handlers.build_app(Webhook(), knows)))["allowed"]
    assert seen == [threading.current_thread()]


def test_thousands_of_wrong_parents_take_no_longer_than_their_share() -> None:
    """A hint that lists what is known is made once, not once for each of them."""

    def judged(number: int) -> float:
        raw = podgroup(*({"name": f"leaf-{i}", "parent": "typo", "minMember": 1} for i in range(number)))
        began = time.process_time()
        assert len(muster.validate(raw)) >= number
        return time.process_time() - began

    judged(100)
    assert judged(4_000) / judged(400) < 40
