"""A collector of OpenTelemetry: reads what an OTLP exporter posts over HTTP."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Keeps every request; with `answers` False it answers none until it is closed."""

    def __init__(self, answers: bool = True) -> None:
        self.received: list[ExportTraceServiceRequest] = []
        self.url = ""
        self.go = threading.Event()
        if answers:
            self.go.set()

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.received
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @contextmanager
    def open(self) -> Iterator["Collector"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"collector": self}))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
        try:
            yield self
        finally:
            self.go.set()
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    collector: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.collector.received.append(ExportTraceServiceRequest.FromString(body))
        self.collector.go.wait(30)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return
