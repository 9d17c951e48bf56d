"""Where the API server asks before it stores an object: `/validate`, and `/mutate`, which lets pass where conversion is
not wanted: a webhook configuration that is ahead of a restart must not stop anybody.

Rule 1: every answer is a value, and whatever is wrong with a request ends in a sentence: no traceback leaves this file.
Rule 2: size, time and memory are bounded: a large request is read when it has a place, so that there are never more
of them than places; what takes long never holds up what does not.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.api.codec import title
from muster.config.settings import Webhook
from muster.observability.asgi_server import AsgiServer
from muster.observability.header_timeout import HeaderTimeout
from muster.observability.logging import logger
from muster.observability.metrics import Metrics
from muster.webhook.admission import leave, mutate, validate
from muster.webhook.admission_review import (
    JUDGED,
    AdmissionRequest,
    AdmissionResponse,
    Judge,
    Unanswerable,
    read,
    written,
)
from muster.webhook.certificates.certificate_rotation import ServedCertificate
from muster.webhook.cluster_context import ClusterContext, Knows

SMALL_BYTES = 16 * 2**10  # judged at once, in a few milliseconds; what is larger goes to a thread
THREADS = 2
ELSEWHERE = "other"  # in the metrics: any path that is none of ours


class Unjudged(Exception):
    """An error of our own, with what it happened to."""

    def __init__(self, admission_request: AdmissionRequest) -> None:
        super().__init__(admission_request.uid)
        self.admission_request = admission_request


def respond(judge: Judge, body: bytes) -> tuple[bytes, str]:
    """Bytes in, bytes and the result in a word out."""
    try:
        admission_request = read(body)
        answer = _answer(judge, admission_request)
    except RecursionError:
        raise Unanswerable(400, "the review is nested too deeply") from None
    return written(answer), answer.result


def _answer(judge: Judge, admission_request: AdmissionRequest) -> AdmissionResponse:
    try:
        return judge(admission_request)
    except RecursionError:
        raise
    except Exception as error:
        raise Unjudged(admission_request) from error


class AdmissionHandler:
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
            cause, about = error.__cause__ or error, _about(error.admission_request)
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


def _about(admission_request: AdmissionRequest) -> dict[str, str]:
    """What a line of the log is about; PodGroups by the gang's key."""
    named = title(admission_request.new) if isinstance(admission_request.object, dict) else admission_request.kind.kind
    gang = {"gang": named.partition("`")[2].rstrip("`")} if admission_request.type == JUDGED[0] else {}
    return {"object": named, "operation": admission_request.operation, **gang}


def _said(status: int, sentence: str) -> tuple[Response, str]:
    return PlainTextResponse(f"{sentence}\n", status), str(status)


def app(settings: Webhook, knows: Knows | None = None, metrics: Metrics | None = None) -> Starlette:
    """The webhook; `knows` says what lies around an object, as far as it is known now, for warnings (V6)."""
    handler = AdmissionHandler(settings, metrics)
    context = ClusterContext(knows) if knows else None
    convert_or_leave = mutate if settings.convert_older_dialects else leave
    judges: Mapping[str, Callable[[], Judge]] = {
        "/validate": lambda: partial(validate, context=context() if context else None),
        "/mutate": lambda: convert_or_leave,
    }
    nowhere = handler.nowhere(tuple(judges))
    return Starlette(
        routes=[Route(path, handler.endpoint(path, judge), methods=["POST"]) for path, judge in judges.items()],
        exception_handlers={404: nowhere, 405: nowhere},
    )


def listener(
    listening: Starlette, host: str, port: int, served_certificate: ServedCertificate | None = None
) -> AsgiServer:
    """A server to be run with `serve()`; with TLS where there is a door. It leaves signals to whoever runs it."""
    return AsgiServer(
        uvicorn.Config(
            listening,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=HeaderTimeout,
            ws="none",
            server_header=False,
            limit_concurrency=1_000,  # connections; more are told to come back
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
            ssl_context_factory=(lambda _config, _default: served_certificate.context) if served_certificate else None,
        )
    )
