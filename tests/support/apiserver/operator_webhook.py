"""The admission webhook of operators at the API server of the tests: it completes pods while they are created.

A pytest plugin with one fixture, `operator_webhook`, for the tests of one module; like the real one of LeaderWorkerSets
it gets only pods with the operator's label. Without it, muster's controllers label such pods afterwards.
"""

import base64
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgspec
import pytest

from muster.workloads.operators.leader_worker_pods import GROUP_INDEX, LEADER, SET_NAME, SIZE, WORKER_INDEX
from muster.workloads.operators.pod_admission import admit_pod
from tests.support.apiserver.apiserver import ApiServer
from tests.support.apiserver.controller_manager import ControllerManager
from tests.support.apiserver.server_process import NotStarted

NAME = "operators-of-the-tests"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REGISTERED_SECONDS = 30.0
Raw = dict[str, Any]


class ReviewHandler(BaseHTTPRequestHandler):
    """Answers admission reviews of pods."""

    def do_POST(self) -> None:
        """One review."""
        review: Raw = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        body = msgspec.json.encode({**review, "request": None, "response": reviewed(review["request"])})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


def reviewed(request: Raw) -> Raw:
    """Allowed, with a JSON patch where the webhooks of operators change the pod."""
    pod: Raw = request["object"]
    pod["metadata"].setdefault("namespace", request["namespace"])
    admitted = admit_pod(pod)
    response: Raw = {"uid": request["uid"], "allowed": True}
    if admitted == pod:
        return response
    patch = [
        {"op": "add", "path": "/metadata/labels", "value": admitted["metadata"]["labels"]},
        {"op": "replace", "path": "/spec", "value": admitted["spec"]},
    ]
    return {**response, "patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}


@contextmanager
def serving(apiserver: ApiServer) -> Iterator[int]:
    """The port where reviews are answered, with the certificate of the API server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ReviewHandler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(apiserver.folder / "server.crt", apiserver.folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def registered(apiserver: ApiServer, port: int) -> Iterator[None]:
    """Until the API server calls the webhook; it does not any more afterwards."""
    ca = base64.b64encode((apiserver.folder / "ca.crt").read_bytes()).decode()
    webhook = {
        "name": "pods.operators.muster.test",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": ca},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "objectSelector": {"matchExpressions": [{"key": SET_NAME, "operator": "Exists"}]},
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }
    apiserver.request(CONFIGURATIONS, msgspec.json.encode(configuration), "POST")
    try:
        _until_called(apiserver)
        yield
    finally:
        apiserver.request(f"{CONFIGURATIONS}/{NAME}", method="DELETE")


def _until_called(apiserver: ApiServer) -> None:
    pod = {
        "metadata": {
            "name": "probe-0",
            "labels": {SET_NAME: "probe", WORKER_INDEX: LEADER},
            "annotations": {SIZE: "2"},
        },
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    ends = time.monotonic() + REGISTERED_SECONDS
    while time.monotonic() < ends:
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        made = msgspec.json.decode(apiserver.request(path, msgspec.json.encode(pod), "POST"))
        if GROUP_INDEX in made["metadata"]["labels"]:
            return
        time.sleep(0.1)
    raise NotStarted(f"the API server does not call the webhook of operators in {REGISTERED_SECONDS:g} s")


@pytest.fixture(scope="module")
def operator_webhook(controller_manager: ControllerManager) -> Iterator[None]:
    """Pods of operators are complete from their first moment, for the tests of one module."""
    with serving(controller_manager.apiserver) as port, registered(controller_manager.apiserver, port):
        yield
