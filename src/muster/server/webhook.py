"""What the API server asks before it stores an object: `/validate` (V1-V6), and `/mutate`, which converts (D) where
that is wanted and lets pass where it is not: a webhook configuration that is ahead of a restart must not stop anybody.

Rule 1: every answer is a value, and whatever is wrong with a request ends in a sentence: no traceback leaves this file.
Rule 2: size, time and memory are bounded: a large request is read when it has a place, so that there are never more
of them than places; what takes long never holds up what does not.
Rule 3: only what an object says itself refuses it. What lies around it may still come (`kubectl apply` of a folder has
no order): there a PodGroup without its Topology is told in a warning, and waits with a reason (T6, Q2).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

import msgspec
import uvicorn
from msgspec import UNSET, Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.api import names
from muster.api.codec import Document, title
from muster.api.meta import Wire
from muster.config import Webhook
from muster.errors import MusterError
from muster.reporting.problems import lines
from muster.reporting.text import plain
from muster.rules.around import Around
from muster.rules.check import check, errors
from muster.rules.dialects import Conversion, convert, looks_older
from muster.rules.leftovers import Managers, convert_update, taken_back
from muster.rules.problem import Problem
from muster.server.certificates import Door
from muster.server.guest import Guest
from muster.server.logs import logger
from muster.server.metrics import Metrics
from muster.server.punctual import Punctual
from muster.server.surroundings import Knows, Surroundings

API_VERSION = "admission.k8s.io/v1"
JUDGED = ((names.SCHEDULING, "PodGroup"), (names.QUEUES, "Queue"), (names.TOPOLOGIES, "Topology"))
SMALL_BYTES = 16 * 2**10  # judged at once, in a few milliseconds; what is larger goes to a thread
MOST_TOLD = 200  # problems in one answer; the rest is counted
MOST_WARNINGS = 20
LONGEST_WARNING = 250  # characters; the API server cuts longer ones
THREADS = 2
ELSEWHERE = "other"  # in the metrics: any path that is none of ours
_CAUSES = {"V5": "FieldValueForbidden"}

Raw = dict[str, Any]


class GroupVersionKind(Wire, frozen=True):
    """A kind, as a request names it."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Asked(Wire, frozen=True):
    """AdmissionRequest: what is about to happen."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    operation: str = ""
    object: Any = None  # without what nobody looks at
    old_object: Any = None
    managed: msgspec.Raw = msgspec.Raw()  # `metadata.managedFields` of the object, not decoded: few look at it
    old_managed: msgspec.Raw = msgspec.Raw()

    @property
    def type(self) -> tuple[str, str]:
        """`apiVersion` and `kind`."""
        group = f"{self.kind.group}/" if self.kind.group else ""
        return f"{group}{self.kind.version}", self.kind.kind

    @property
    def judged(self) -> bool:
        """Whether it is muster's to say anything: creates and updates of our kinds, in any version of them."""
        ours = any(kind == self.kind.kind and version.split("/")[0] == self.kind.group for version, kind in JUDGED)
        return ours and self.operation in ("CREATE", "UPDATE") and not self.sub_resource

    @property
    def new(self) -> Raw:
        """The object, as what the request says it is."""
        version, kind = self.type
        return {**self.object, "apiVersion": version, "kind": kind}


class Sent(Wire, frozen=True):
    """AdmissionRequest, as it comes in: objects are decoded when it is known that they are looked at."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    operation: str = ""
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class Review(Wire, frozen=True):
    """AdmissionReview, as it comes in."""

    api_version: str = ""
    kind: str = ""
    request: Sent | None = None


class Answer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """AdmissionResponse."""

    uid: str
    allowed: bool
    status: Raw = {}
    warnings: tuple[str, ...] = ()
    patch_type: Literal["", "JSONPatch"] = ""
    patch: bytes = b""  # base64 on the wire

    @property
    def result(self) -> str:
        """In a word, for the metrics."""
        if not self.allowed:
            return "denied"
        return "patched" if self.patch else "warned" if self.warnings else "allowed"


Judge = Callable[[Asked], Answer]


class Unanswerable(MusterError):
    """A request that gets an HTTP status and a sentence instead of an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unjudged(Exception):
    """An error of our own, with what it happened to."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.uid)
        self.asked = asked


# judging: pure ------------------------------------------------------------------------------------------------------


def validate(asked: Asked, around: Around | None = None) -> Answer:
    """V1-V6 on what is created or updated; everything else passes."""
    if not asked.judged or _leaving(asked.object):
        return Answer(asked.uid, allowed=True)
    old = asked.old_object if asked.operation == "UPDATE" else None
    problems = _problems(asked.new, old, around)
    refused = errors(problems)
    warnings = _warnings(problem for problem in problems if problem.severity == "warning")
    if not refused:
        return Answer(asked.uid, allowed=True, warnings=warnings)
    return Answer(asked.uid, allowed=False, status=_status(asked, refused), warnings=warnings)


def _leaving(raw: Raw) -> bool:
    """An object that is being deleted is not judged: its finalizers must go, whatever it says."""
    meta = raw.get("metadata")
    return isinstance(meta, dict) and bool(meta.get("deletionTimestamp"))


def _problems(raw: Raw, old: Any, around: Around | None) -> tuple[Problem, ...]:
    """Rule 3: an error that only what lies around shows is a warning."""
    problems = check(raw, old, around)
    if around is None or not errors(problems):
        return problems
    alone = frozenset(check(raw, old))
    return tuple(problem if problem in alone else replace(problem, severity="warning") for problem in problems)


def _status(asked: Asked, refused: tuple[Problem, ...]) -> Raw:
    told, more = refused[:MOST_TOLD], len(refused) - MOST_TOLD
    message = f"{title(asked.new)} is invalid\n{plain(lines(told))}"
    meta = asked.object.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f"{message}\n  … and {more} more" if more > 0 else message,
        "details": {
            "name": name if isinstance(name, str) else "",
            "group": asked.kind.group,
            "kind": asked.kind.kind,
            "causes": [_cause(problem) for problem in told],
        },
    }


def _cause(problem: Problem) -> Raw:
    kind = "FieldValueTypeInvalid" if problem.key == "type" else _CAUSES.get(problem.rule, "FieldValueInvalid")
    return {"reason": kind, "message": _sentence(problem, at=False), "field": problem.at}


def _sentence(problem: Problem, *, at: bool = True) -> str:
    """One line: where, what, the rule, the way out."""
    where = f"{problem.at}: " if problem.at and at else ""
    rule = f" ({problem.rule})" if problem.rule else ""
    hint = f"; hint: {problem.hint}" if problem.hint else ""
    return " ".join(f"{where}{problem.says}{rule}{hint}".split())


def _warnings(problems: Any) -> tuple[str, ...]:
    told = [_short(_sentence(problem)) for problem in problems]
    more = len(told) - MOST_WARNINGS
    return tuple(told if more <= 0 else [*told[:MOST_WARNINGS], f"… and {more} more warnings"])


def _short(text: str) -> str:
    shown = "".join(character if character.isprintable() else "�" for character in text)
    return shown if len(shown) <= LONGEST_WARNING else f"{shown[: LONGEST_WARNING - 1]}…"


def mutate(asked: Asked) -> Answer:
    """Older dialects to the form of record (D). It never refuses: what cannot be converted is left to `validate`.

    What is stored in an older form stays as it is until somebody rewrites it (V4): its reading must not change in
    passing, because another field was updated.
    """
    if not asked.judged or asked.type != JUDGED[0] or _leaving(asked.object) or not _may_be_older(asked):
        return Answer(asked.uid, allowed=True)
    raw = _only_needed(asked.new)
    try:
        done = _converted(asked, Document(_WHERE, raw))
    except MusterError as error:
        return Answer(asked.uid, allowed=True, warnings=(_short(f"not converted: {_in_one_line(error)}"),))
    patch = difference(asked.object.get("spec"), done.raw.get("spec")) if done.changes else []
    if not patch:
        return Answer(asked.uid, allowed=True)
    prefix = f"{_WHERE}: {title(raw)}: "
    told = tuple(_short(f"converted: {change.removeprefix(prefix)}") for change in done.changes[:MOST_WARNINGS])
    return Answer(asked.uid, allowed=True, warnings=told, patch_type="JSONPatch", patch=msgspec.json.encode(patch))


_WHERE = "request"


def leave(asked: Asked) -> Answer:
    """`/mutate` where conversion is not wanted: whoever asks all the same must not be held up."""
    return Answer(asked.uid, allowed=True)


def _may_be_older(asked: Asked) -> bool:
    """Whether a closer look is worth its time: most requests say nothing in an older form, and take nothing back."""
    spec = asked.object.get("spec")
    if asked.operation != "UPDATE":
        return looks_older(spec)
    old = asked.old_object.get("spec")
    says_older = spec != old and looks_older(spec)
    return (says_older or _takes_back(asked)) and not _older(_only_needed({**asked.new, "spec": old}))


def _takes_back(asked: Asked) -> bool:
    """Whether a manifest was applied that no longer says something in an older form."""
    new, old = asked.object.get("metadata"), asked.old_object.get("metadata")
    if not isinstance(new, dict) or not isinstance(old, dict):
        return False
    by_server = bytes(asked.managed) != bytes(asked.old_managed) and b'"Apply"' in bytes(asked.old_managed)
    by_client = new.get("annotations") != old.get("annotations")
    return (by_server or by_client) and bool(taken_back(asked.object, asked.old_object, _managers(asked)))


def _managers(asked: Asked) -> Managers:
    return Managers(_decoded(asked.managed), _decoded(asked.old_managed))


def _decoded(raw: msgspec.Raw) -> Any:
    """None where there is nothing, or nothing that can be read: nobody has looked at it until now."""
    try:
        return msgspec.json.decode(raw) if bytes(raw) else None
    except (msgspec.MsgspecError, UnicodeError, ValueError):
        return None


def _only_needed(raw: Raw) -> Raw:
    """Without what no conversion looks at, such as `managedFields`: it is copied."""
    meta = raw.get("metadata")
    named = (
        {name: meta[name] for name in ("name", "generateName", "namespace", "annotations") if name in meta}
        if (isinstance(meta, dict))
        else meta
    )
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": named, "spec": raw.get("spec")}


def _converted(asked: Asked, document: Document) -> Conversion:
    """As a new object, or laid over a stored one (`muster.rules.leftovers`)."""
    if asked.operation != "UPDATE":
        return convert(document)
    meta = asked.object.get("metadata")
    identified = isinstance(meta, dict) and bool(meta.get("uid"))
    # Only an object that was written whole, as by `kubectl replace`, comes without the identity of the stored one.
    whole = bool(bytes(asked.managed)) and not identified
    return convert_update(document, asked.old_object, _managers(asked), whole=whole)


def _in_one_line(error: MusterError) -> str:
    """Why something is not converted, without the object's name, which whoever asks knows."""
    lines = [line.strip() for line in error.message.removeprefix(f"{_WHERE}: ").splitlines()]
    said = [line for line in lines if not line.endswith(("cannot be converted", "cannot be read"))]
    sentence = "; ".join(said).replace("two ways; ", "two ways: ", 1)
    return " ".join(f"{sentence}; hint: {error.hint}".split()) if error.hint else " ".join(sentence.split())


def _older(raw: Raw) -> bool:
    """Whether there is something to convert, or something that cannot be."""
    if not looks_older(raw.get("spec")):
        return False
    try:
        return bool(convert(Document(_WHERE, raw)).changes)
    except MusterError:
        return True


def difference(old: Any, new: Any) -> list[Raw]:
    """A JSON Patch from one spec to another, field by field: what is untouched is not mentioned."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [{"op": "add", "path": "/spec", "value": new}]
    gone = [{"op": "remove", "path": _pointer(key)} for key in old if key not in new]
    return gone + [
        {"op": "add", "path": _pointer(key), "value": value}
        for key, value in new.items()
        if key not in old or old[key] != value
    ]


def _pointer(key: str) -> str:
    return "/spec/" + key.replace("~", "~0").replace("/", "~1")


# reading and answering ----------------------------------------------------------------------------------------------

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_REVIEWS = msgspec.json.Decoder(Review)


class Meta(Wire, frozen=True):
    """Metadata of any shape; `managedFields`, often the larger part of an object, stays as it is."""

    name: Any = UNSET
    generate_name: Any = UNSET
    namespace: Any = UNSET
    uid: Any = UNSET
    labels: Any = UNSET
    annotations: Any = UNSET
    creation_timestamp: Any = UNSET
    deletion_timestamp: Any = UNSET
    owner_references: Any = UNSET
    resource_version: Any = UNSET
    generation: Any = UNSET
    managed_fields: msgspec.Raw = msgspec.Raw()


class Thing(Wire, frozen=True):
    """An object of one of our kinds; of what is in it, the request has said the kind."""

    metadata: msgspec.Raw = msgspec.Raw()
    spec: Any = UNSET
    status: Any = UNSET


_THINGS = msgspec.json.Decoder(Thing)
_METAS = msgspec.json.Decoder(Meta)
_META = tuple((name, wire) for name, wire in zip(Meta.__struct_fields__, Meta.__struct_encode_fields__, strict=True))


def read(body: bytes) -> Asked:
    """The request of a review; Unanswerable says in a sentence what is wrong with it."""
    try:
        review = _REVIEWS.decode(body)
        request = _opened(review.request) if review.request else None
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise Unanswerable(400, f"this is not an AdmissionReview: {_short(str(error))}") from None
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        said = _short(f"`{review.kind}` of `{review.api_version}`")
        raise Unanswerable(400, f"expected an AdmissionReview of `{API_VERSION}`, got {said}")
    if request is None or not request.uid:
        raise Unanswerable(400, "the review has no `request` with a `uid`")
    return _sound(request)


def _opened(sent: Sent) -> Asked:
    asked = Asked(sent.uid, sent.kind, sent.sub_resource, sent.operation)
    if not asked.judged:
        return asked
    new, managed = _object(sent.object)
    old, old_managed = _object(sent.old_object)
    return replace(asked, object=new, old_object=old, managed=managed, old_managed=old_managed)


def _object(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw]:
    """An object with what is looked at, and its `managedFields`; what is no object comes as it is."""
    if not bytes(raw).lstrip().startswith(b"{"):
        return (msgspec.json.decode(raw) if bytes(raw) else None), msgspec.Raw()
    thing = _THINGS.decode(raw)
    meta, managed = _metadata(thing.metadata)
    parts = {"metadata": meta, "spec": thing.spec, "status": thing.status}
    return {name: value for name, value in parts.items() if value is not UNSET}, managed


def _metadata(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw]:
    if not bytes(raw).lstrip().startswith(b"{"):
        return (msgspec.json.decode(raw) if bytes(raw) else UNSET), msgspec.Raw()
    meta = _METAS.decode(raw)
    found = {wire: getattr(meta, name) for name, wire in _META[:-1]}
    return {wire: value for wire, value in found.items() if value is not UNSET}, meta.managed_fields


def _sound(asked: Asked) -> Asked:
    if asked.operation not in _OPERATIONS:
        raise Unanswerable(400, f"`{_short(asked.operation)}` is no operation; known: {', '.join(_OPERATIONS)}")
    if asked.judged and not isinstance(asked.object, dict):
        raise Unanswerable(400, f"the request is a {asked.operation} without an object")
    if asked.judged and asked.operation == "UPDATE" and not isinstance(asked.old_object, dict):
        raise Unanswerable(400, "the request is an UPDATE without the old object")
    return asked


def written(answer: Answer) -> bytes:
    """The review that goes back."""
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": answer})


def respond(judge: Judge, body: bytes) -> tuple[bytes, str]:
    """Bytes in, bytes and the result in a word out."""
    try:
        asked = read(body)
        answer = _answer(judge, asked)
    except RecursionError:
        raise Unanswerable(400, "the review is nested too deeply") from None
    return written(answer), answer.result


def _answer(judge: Judge, asked: Asked) -> Answer:
    try:
        return judge(asked)
    except RecursionError:
        raise
    except Exception as error:
        raise Unjudged(asked) from error


class Desk:
    """Where requests are taken one by one, within their limits."""

    def __init__(self, settings: Webhook, metrics: Metrics | None) -> None:
        self._settings, self._metrics = settings, metrics
        self._gate = asyncio.Semaphore(settings.concurrency)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook")
        self._log = logger("webhook")
        self._told: set[tuple[str, int]] = set()  # failures that the log has

    def endpoint(self, path: str, judge: Callable[[], Judge]) -> Callable[[Request], Awaitable[Response]]:
        """Answers on one path. What is known is looked up here, by the loop; only judging may be done by a thread."""

        async def answer(request: Request) -> Response:
            began = time.perf_counter()
            response, result = await self._answer(path, request, judge())
            self._count(path, result, began)
            return response

        return answer

    def nowhere(self, paths: Collection[str]) -> Callable[[Request, Exception], Awaitable[Response]]:
        """Answers whoever comes another way: a wrong path in a webhook configuration is a usual mistake."""

        async def answer(request: Request, error: Exception) -> Response:
            began, path = time.perf_counter(), request.url.path
            known = path if path in paths else ELSEWHERE
            status = getattr(error, "status_code", 404)
            response, result = self._refused(known, status, f"nothing here; POST to {' or '.join(paths)}")
            self._count(known, result, began)
            return response

        return answer

    def _count(self, path: str, result: str, began: float) -> None:
        if self._metrics:
            self._metrics.answered(path, result, time.perf_counter() - began)

    async def _answer(self, path: str, request: Request, judge: Judge) -> tuple[Response, str]:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                data, result = await self._judged(judge, _pieces(request, self._settings.max_body_bytes))
            return Response(data, media_type="application/json"), result
        except Unanswerable as error:
            return self._refused(path, error.status, error.message)
        except ClientDisconnect:
            return self._refused(path, 400, "the caller has left")
        except TimeoutError:
            return self._refused(path, 504, f"there is no answer within {self._settings.timeout_seconds} s")
        except Exception as error:
            return self._failed(error)

    def _refused(self, path: str, status: int, sentence: str) -> tuple[Response, str]:
        """Logged once for each kind of failure: the metrics count the rest, and whoever asks hears it every time."""
        if (path, status) not in self._told:
            self._told.add((path, status))
            self._log.warning(
                "a request was refused; others like it are only counted", path=path, status=status, says=sentence
            )
        return _said(status, sentence)

    def _failed(self, error: Exception) -> tuple[Response, str]:
        cause: BaseException = error
        about: dict[str, str] = {}
        if isinstance(error, Unjudged):
            cause, about = error.__cause__ or error, _about(error.asked)
        self._log.error("a review could not be judged", exc_info=cause, **about)
        return _said(500, f"internal error: {type(cause).__name__}; the log of muster says more")

    async def _judged(self, judge: Judge, pieces: AsyncIterator[bytes]) -> tuple[bytes, str]:
        """Small ones at once; large ones wait for a place before the rest of them is read."""
        begun = bytearray()
        async for piece in pieces:
            begun += piece
            if len(begun) > SMALL_BYTES:
                return await self._judged_apart(judge, begun, pieces)
        return respond(judge, bytes(begun))

    async def _judged_apart(self, judge: Judge, begun: bytearray, rest: AsyncIterator[bytes]) -> tuple[bytes, str]:
        """In a thread, which keeps its place at the gate until it is through."""
        await self._gate.acquire()
        try:
            async for piece in rest:
                begun += piece
            work = asyncio.get_running_loop().run_in_executor(self._threads, respond, judge, bytes(begun))
        except BaseException:
            self._gate.release()
            raise
        work.add_done_callback(self._through)
        return await asyncio.shield(work)

    def _through(self, work: asyncio.Future[tuple[bytes, str]]) -> None:
        self._gate.release()
        if not work.cancelled():
            work.exception()  # seen: nobody may be waiting for it any more


async def _pieces(request: Request, most: int) -> AsyncIterator[bytes]:
    """What is sent, as it comes, unless it is too much: then not even that is read."""
    too_much = Unanswerable(413, f"the review is larger than {most} bytes")
    stated = request.headers.get("content-length", "")
    if stated.isascii() and stated.isdigit() and int(stated[:20]) > most:
        raise too_much
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise too_much
        yield piece


def _about(asked: Asked) -> dict[str, str]:
    """What a line of the log is about; PodGroups by the gang's key."""
    named = title(asked.new) if isinstance(asked.object, dict) else asked.kind.kind
    gang = {"gang": named.partition("`")[2].rstrip("`")} if asked.type == JUDGED[0] else {}
    return {"object": named, "operation": asked.operation, **gang}


def _said(status: int, sentence: str) -> tuple[Response, str]:
    return PlainTextResponse(f"{sentence}\n", status), str(status)


def app(settings: Webhook, knows: Knows | None = None, metrics: Metrics | None = None) -> Starlette:
    """The webhook; `knows` says what lies around an object, as far as it is known now, for warnings (V6)."""
    desk = Desk(settings, metrics)
    around = Surroundings(knows) if knows else None
    convert_or_leave = mutate if settings.convert_older_dialects else leave
    judges: Mapping[str, Callable[[], Judge]] = {
        "/validate": lambda: partial(validate, around=around() if around else None),
        "/mutate": lambda: convert_or_leave,
    }
    nowhere = desk.nowhere(tuple(judges))
    return Starlette(
        routes=[Route(path, desk.endpoint(path, judge), methods=["POST"]) for path, judge in judges.items()],
        exception_handlers={404: nowhere, 405: nowhere},
    )


def listener(listening: Starlette, host: str, port: int, door: Door | None = None) -> Guest:
    """A server to be run with `serve()`; with TLS where there is a door. It leaves signals to whoever runs it."""
    return Guest(
        uvicorn.Config(
            listening,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=Punctual,
            ws="none",
            server_header=False,
            limit_concurrency=1_000,  # connections; more are told to come back
            timeout_keep_alive=75,
            timeout_graceful_shutdown=10,
            ssl_context_factory=(lambda _config, _default: door.context) if door else None,
        )
    )
