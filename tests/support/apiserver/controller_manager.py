"""kube-controller-manager at the API server of the tests: real workload controllers and a real garbage collector.

A pytest plugin with one fixture, `controller_manager`. It runs while the tests of one module use it, so that tests that
expect a bare API server never meet it.
"""

import time
from collections.abc import Iterator

import pytest

from muster.workloads.operators.crds import operator_crds
from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import ApiServer
from tests.support.apiserver.server_process import NotStarted, ServerProcess

CONTROLLERS = (
    "cronjob",
    "deployment",
    "disruption",
    "garbage-collector",
    "job",
    "namespace",
    "replicaset",
    "statefulset",
    "ttl-after-finished",
)
START_SECONDS = 60.0
STARTED = "Proceeding to collect garbage"  # in its log, after the caches of all controllers are filled


class ControllerManager:
    """The controllers of Kubernetes, as the administrator of an API server."""

    def __init__(self, apiserver: ApiServer) -> None:
        self.apiserver = apiserver
        self._process: ServerProcess | None = None

    def start(self) -> None:
        """Until its controllers work."""
        program = self.apiserver.programs[envtest.CONTROLLER_MANAGER]
        self._process = ServerProcess(program, self._flags(), self.apiserver.folder)
        self._until_started(self._process)

    def stop(self) -> None:
        """It is gone when this returns."""
        if self._process:
            self._process.stop()
            self._process = None

    def _until_started(self, process: ServerProcess) -> None:
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends:
            process.check()
            if STARTED in process.log.read_text(errors="replace"):
                return
            time.sleep(0.05)
        raise NotStarted(f"{process.log.name}: not started in {START_SECONDS:g} s: {process.last_lines()}")

    def _flags(self) -> list[str]:
        return [
            f"--kubeconfig={self.apiserver.kubeconfig}",
            f"--controllers={','.join(f'{name}-controller' for name in CONTROLLERS)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--v=2",
        ]


@pytest.fixture(scope="module")
def controller_manager(apiserver: ApiServer) -> Iterator[ControllerManager]:
    """kube-controller-manager, for the tests of one module, and the kinds of other projects' operators."""
    if envtest.CONTROLLER_MANAGER not in apiserver.programs:
        pytest.skip(envtest.HOW_TO_GET_CONTROLLERS)
    apiserver.apply_crds(operator_crds())  # first: its garbage collector looks for kinds every half a minute
    manager = ControllerManager(apiserver)
    try:
        manager.start()
        yield manager
    finally:
        manager.stop()
