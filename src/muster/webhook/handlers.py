"""The admission webhook: `/validate`, `/mutate` and `/group`. Where conversion or grouping is off, PodGroups and pods
are allowed as they are: a webhook configuration may be newer than the running process.

Rule 1: every answer is a value, and every bad request gets a sentence: no traceback leaves this file.
Rule 2: size, time and memory are bounded. Large requests share a number of bytes, and slow requests never delay fast
ones.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.api.codec import title
from muster.config.settings import Webhook
from muster.observability.logging import logger
from muster.observability.serving.heap import release_freed_memory
from muster.webhook.admission import mutate, validate
from muster.webhook.admission_review import (
    VALIDATED_KINDS,
    AdmissionRequest,
    AdmissionResponse,
    Admit,
    ReviewError,
    decode,
    encode,
)
from muster.webhook.cluster_context import ClusterContext, ContextProvider
from muster.webhook.large_bodies import LargeBodies, LargeBody
from muster.webhook.observer import WebhookObserver
from muster.webhook.pod_review import GroupPod, PodAdmissionRequest, admit_pod, decode_pod_review, leave_ungrouped

SMALL_BYTES = 32 * 2**10  # answered in the event loop, in one or two milliseconds; larger ones go to a thread
LARGE_BYTES = 64 * 2**20  # of all larger ones together
THREADS = 2
RespondTo = Callable[[AsyncIterator[bytes]], Awaitable[tuple[bytes, str]]]  # the body in; response and result out
OTHER_PATH = "other"  # in the metrics: any path that the webhook does not serve


class AdmissionFailure(Exception):
    """An internal error, with the request that caused it."""

    def __init__(self, admission_request: AdmissionRequest) -> None:
        super().__init__(admission_request.uid)
        self.admission_request = admission_request


def respond(admit: Admit, body: bytes) -> tuple[bytes, str]:
    """Answer a review: the body of the response, and its result for the metrics."""
    try:
        admission_request = decode(body)
        answer = _admit(admit, admission_request)
    except RecursionError:
        raise ReviewError(400, "the review is nested too deeply") from None
    return encode(answer), answer.result


def _admit(admit: Admit, admission_request: AdmissionRequest) -> AdmissionResponse:
    try:
        return admit(admission_request)
    except RecursionError:
        raise
    except Exception as error:
        raise AdmissionFailure(admission_request) from error


class AdmissionHandler:
    """Answers requests within the limits of size, time and concurrency."""

    def __init__(self, settings: Webhook, metrics: WebhookObserver | None) -> None:
        self._settings, self._metrics = settings, metrics
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._bodies = LargeBodies(LARGE_BYTES)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook")
        self._log = logger("webhook")
        self._logged: set[tuple[str, int]] = set()  # failures by path and status

    def endpoint(self, path: str, admission: Callable[[], Admit]) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of one path. The event loop reads the context; only the admission itself may run in a thread."""

        return self._endpoint(path, lambda chunks: self._read_and_respond(admission(), chunks))

    def pod_endpoint(self, path: str, group: GroupPod) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of new pods. It waits for owners that are not known yet, in the event loop."""
        return self._endpoint(path, lambda chunks: self._read_and_group(group, chunks))

    def _endpoint(self, path: str, respond_to: RespondTo) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            began = time.perf_counter()
            response, result = await self._answer(path, request, respond_to)
            self._count(path, result, began)
            return response

        return answer

    def not_found(self, paths: Collection[str]) -> Callable[[Request, Exception], Awaitable[Response]]:
        """The endpoint of any other path or method: a wrong path in a webhook configuration is a common mistake."""

        async def answer(request: Request, error: Exception) -> Response:
            began, path = time.perf_counter(), request.url.path
            known = path if path in paths else OTHER_PATH
            status = getattr(error, "status_code", 404)
            response, result = self._refuse(known, status, f"nothing here; POST to {' or '.join(paths)}")
            self._count(known, result, began)
            return response

        return answer

    def _count(self, path: str, result: str, began: float) -> None:
        if self._metrics:
            self._metrics.answered(path, result, time.perf_counter() - began)

    async def _answer(self, path: str, request: Request, respond_to: RespondTo) -> tuple[Response, str]:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                data, result = await respond_to(_read_body(request, self._settings.max_body_bytes))
            return Response(data, media_type="application/json"), result
        except ReviewError as error:
            return self._refuse(path, error.status, error.message)
        except ClientDisconnect:
            return self._refuse(path, 400, "the client closed the connection")
        except TimeoutError:
            return self._refuse(path, 504, f"no answer within {self._settings.timeout_seconds} s")
        except Exception as error:
            return self._fail(error)

    def _refuse(self, path: str, status: int, sentence: str) -> tuple[Response, str]:
        """Answer with an HTTP error. Logs each kind of failure once; the metrics count all of them."""
        if (path, status) not in self._logged:
            self._logged.add((path, status))
            self._log.warning(
                "a request was refused; others like it are only counted", path=path, status=status, says=sentence
            )
        return _http_error(status, sentence)

    def _fail(self, error: Exception) -> tuple[Response, str]:
        cause: BaseException = error
        about: dict[str, str] = {}
        if isinstance(error, AdmissionFailure):
            cause, about = error.__cause__ or error, _about(error.admission_request)
        self._log.error("a review failed", exc_info=cause, **about)
        return _http_error(500, f"internal error: {type(cause).__name__}; see the log of muster")

    async def _read_and_respond(self, admit: Admit, chunks: AsyncIterator[bytes]) -> tuple[bytes, str]:
        """Answer a small request at once; the rest of a large one is read within the limit of bytes."""
        body = bytearray()
        async for chunk in chunks:
            body += chunk
            if len(body) > SMALL_BYTES:
                return await self._respond_in_thread(admit, body, chunks)
        return respond(admit, bytes(body))

    async def _read_and_group(self, group: GroupPod, chunks: AsyncIterator[bytes]) -> tuple[bytes, str]:
        answer = await admit_pod(await self._read_pod(chunks), group)
        return encode(answer), answer.result

    async def _read_pod(self, chunks: AsyncIterator[bytes]) -> PodAdmissionRequest:
        """The request, decoded, and without its body before it waits for anything."""
        body = bytearray()
        async for chunk in chunks:
            body += chunk
            if len(body) > SMALL_BYTES:
                reserved = await self._bodies.read(body, chunks)
                try:
                    return decode_pod_review(bytes(body))
                finally:
                    self._bodies.release(reserved)
        return decode_pod_review(bytes(body))

    async def _respond_in_thread(self, admit: Admit, body: bytearray, rest: AsyncIterator[bytes]) -> tuple[bytes, str]:
        """Answer in a thread, which holds its slot until it is done, even where the request times out."""
        reserved = await self._bodies.read(body, rest)
        try:
            await self._slots.acquire()
        except BaseException:
            self._bodies.release(reserved)
            raise
        whole = bytes(body)
        body.clear()  # this frame outlives the work: one copy is enough
        work = asyncio.get_running_loop().run_in_executor(self._threads, respond, admit, whole)
        work.add_done_callback(partial(self._release, reserved))
        return await asyncio.shield(work)

    def _release(self, body: LargeBody, work: asyncio.Future[tuple[bytes, str]]) -> None:
        self._slots.release()
        self._bodies.release(body)
        if self._bodies.becomes_quiet():
            asyncio.get_running_loop().run_in_executor(None, release_freed_memory)
        if not work.cancelled():
            work.exception()  # retrieved: the request may have timed out


async def _read_body(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body, chunk by chunk; ReviewError as soon as it is known to be too large."""
    too_large = ReviewError(413, f"the review is larger than {most} bytes")
    stated = request.headers.get("content-length", "")
    if stated.isascii() and stated.isdigit() and int(stated[:20]) > most:
        raise too_large
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise too_large
        yield chunk


def _about(admission_request: AdmissionRequest) -> dict[str, str]:
    """Fields of a log line about a request; a PodGroup has the gang's key."""
    named = title(admission_request.new) if isinstance(admission_request.object, dict) else admission_request.kind.kind
    gang = {"gang": named.partition("`")[2].rstrip("`")} if admission_request.type == VALIDATED_KINDS[0] else {}
    return {"object": named, "operation": admission_request.operation, **gang}


def _http_error(status: int, sentence: str) -> tuple[Response, str]:
    return PlainTextResponse(f"{sentence}\n", status), str(status)


def build_app(
    settings: Webhook,
    context_provider: ContextProvider | None = None,
    metrics: WebhookObserver | None = None,
    group_pod: GroupPod = leave_ungrouped,
) -> Starlette:
    """The webhook; `context_provider` returns the cluster around an object, as far as known, for warnings (V6).

    `group_pod` returns what a new pod is to carry.
    """
    handler = AdmissionHandler(settings, metrics)
    context = ClusterContext(context_provider) if context_provider else None
    admissions: Mapping[str, Callable[[], Admit]] = {
        "/validate": lambda: partial(validate, context=context() if context else None),
        "/mutate": lambda: partial(mutate, converts=settings.convert_older_dialects),
    }
    endpoints = {path: handler.endpoint(path, admission) for path, admission in admissions.items()}
    endpoints["/group"] = handler.pod_endpoint("/group", group_pod)
    not_found = handler.not_found(tuple(endpoints))
    return Starlette(
        routes=[Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()],
        exception_handlers={404: not_found, 405: not_found},
    )
