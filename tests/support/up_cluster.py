"""A `muster up` of its own for pages that watch it: its dashboard, and requests to its API server."""

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

START_SECONDS, END_SECONDS = 60.0, 30.0
PATCH = "application/merge-patch+json"


class UpCluster:
    """The process, started and ended as often as a test wants; its dashboard stays at one address."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._folder, self._words = folder, words
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.dashboard = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Starts it, and waits until it serves."""
        self._output = (self._folder / "up.txt").open("w+b")
        command = [sys.executable, "-m", "muster.cli.main", "up", *self._words]
        command += ["--kubeconfig", str(self._kubeconfig), "--dashboard-port", str(self._port)]
        self._process = subprocess.Popen(
            command,
            cwd=self._folder,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        end = time.monotonic() + START_SECONDS
        while "Ctrl-C" not in self.said:
            assert self._process.poll() is None, self.said
            assert time.monotonic() < end, "the cluster does not start"
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it; without a cluster there is nothing to do."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        assert "Traceback" not in self.said, self.said
        self._output.close()

    @property
    def said(self) -> str:
        """Everything that it printed."""
        return (self._folder / "up.txt").read_text(encoding="utf-8")

    @property
    def _kubeconfig(self) -> Path:
        return self._folder / "kubeconfig"

    # requests -----------------------------------------------------------------------------------------------------

    def create(self, objects: Iterable[dict[str, Any]]) -> None:
        """Creates objects of any kind; an existing Namespace stays."""
        for raw in objects:
            try:
                self._ask("POST", _path(raw), raw)
            except urllib.error.HTTPError as error:
                if error.code != 409 or raw["kind"] != "Namespace":
                    raise

    def replace_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        """Deletes pods and creates them again, as their controller does with those that failed."""
        for raw in pods:
            self._ask("DELETE", f"{_path(raw)}/{raw['metadata']['name']}?gracePeriodSeconds=0", None)
            self.create([raw])

    def annotate_node(self, name: str, value: str | None) -> None:
        """Makes a node fail (`true`), or heals it (None)."""
        self._ask("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"annotations": {"muster.dev/fail": value}}})

    def pods_on(self, namespace: str) -> dict[str, str]:
        """The node of each pod; empty: it has none."""
        listed = self._ask("GET", f"/api/v1/namespaces/{namespace}/pods", None)
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in listed["items"]}

    def _ask(self, method: str, path: str, body: Any) -> Any:
        config = yaml.safe_load(self._kubeconfig.read_text(encoding="utf-8"))
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        request = urllib.request.Request(
            cluster["server"] + path,
            None if body is None else json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {config['users'][0]['user']['token']}",
                "Content-Type": PATCH if method == "PATCH" else "application/json",
            },
            method=method,
        )
        with urllib.request.urlopen(
            request, context=ssl.create_default_context(cadata=authority), timeout=30
        ) as answer:
            return json.load(answer)


def _path(raw: dict[str, Any]) -> str:
    """Where objects of a kind are created: all of these have regular plurals."""
    version, namespace = raw["apiVersion"], raw["metadata"].get("namespace", "")
    start = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{start}{f'/namespaces/{namespace}' if namespace else ''}/{raw['kind'].lower()}s"


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port
