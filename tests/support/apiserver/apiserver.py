"""A real API server for the tests: etcd and kube-apiserver on loopback, with muster's CRDs; see `envtest`.

A pytest plugin with one fixture, `apiserver`, and one line where it cannot be had. Without the fixture
`controller_manager` of `controller_manager`, no controller runs: no garbage collection, namespaces never finish to
terminate, nothing updates the status of budgets or taints nodes.
"""

import shutil
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from muster.kube.temporary_folder import HeldFolder
from muster.validation.crds import crds
from tests.support.apiserver import envtest
from tests.support.apiserver.envtest_certificates import certificates
from tests.support.apiserver.server_process import NotStarted, ServerProcess

ADMIN, NO_RIGHTS = "admin-token-of-the-tests", "nobody-token-of-the-tests"  # of this server only
OFF = "ServiceAccount,TaintNodesByCondition"  # admission that waits for controllers that do not run here
ON = "OwnerReferencesPermissionEnforcement"  # not on by default, but in many clusters: owner references need rights
AUDITED: dict[str, object] = {  # every request of a service account, without its body
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}
START_SECONDS = 120.0
CONFLICT = 409


class ApiServer:
    """Two processes, a folder, and how to reach them."""

    def __init__(self, programs: dict[str, Path], flags: Sequence[str] = ()) -> None:
        """`flags`: more of them, of kube-apiserver."""
        self._held = HeldFolder("muster-apiserver-held-")
        self.folder, self.programs = self._held.path, programs
        self.etcd_port, self.port = _free_port(), _free_port()
        self.url, self.etcd_url = f"https://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.etcd_port}"
        self._running: list[ServerProcess] = []
        self._flags = {"etcd": self._etcd_flags(), "kube-apiserver": [*self._server_flags(), *flags]}

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator, by client certificate; context `token` by token, `nobody` may do nothing."""
        return self.folder / "kubeconfig"

    @property
    def audit(self) -> Path:
        """What service accounts have asked for, a JSON object a line."""
        return self.folder / "audit.log"

    @property
    def pids(self) -> dict[str, int]:
        """Of the running programs, by name."""
        return {process.log.stem: process.pid for process in self._running}

    def start(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        """Until it is ready and knows these kinds."""
        certificates(self.folder)
        (self.folder / "tokens.csv").write_text(
            f"{ADMIN},admin,admin,system:masters\n{NO_RIGHTS},nobody,nobody,tests\n", encoding="utf-8"
        )
        (self.folder / "audit.yaml").write_text(yaml.safe_dump(AUDITED), encoding="utf-8")
        self.kubeconfig.write_text(self._kubeconfig(), encoding="utf-8")
        self.kubeconfig.chmod(0o600)
        self._run("etcd")
        self._run("kube-apiserver")
        self.wait_until_ready()
        self.apply_crds(definitions)

    def restart(self, program: str) -> None:
        """Kill one of the two and start it again on what it has stored; `wait_until_ready` says when it serves.

        From the thread that outlives the tests: a program ends with the thread that started it.
        """
        for process in [one for one in self._running if one.log.stem == program]:
            self._running.remove(process)
            process.kill()
        self._run(program)

    def stop(self) -> None:
        """Both are gone when this returns."""
        while self._running:
            self._running.pop().stop()

    def clean(self, keep_logs: bool) -> None:
        """Nothing is left but the logs, where they are of use."""
        if not keep_logs:
            self._held.remove()
            return
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        self._held.let_go()
        sys.stderr.write(f"\nlogs of the API server: {self.folder}\n")

    def request(
        self, path: str, body: bytes | None = None, method: str = "GET", media: str = "application/json"
    ) -> bytes:
        """As the administrator, without any of our code."""
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": media}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
        )
        with opener.open(request, timeout=10) as answer:
            return bytes(answer.read())

    def _run(self, name: str) -> None:
        self._running.append(ServerProcess(self.programs[name], self._flags[name], self.folder))

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",  # nothing here outlives the tests
            "--log-level=warn",
        ]

    def _server_flags(self) -> list[str]:
        return [
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder}",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--client-ca-file={self.folder / 'ca.crt'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            f"--audit-policy-file={self.folder / 'audit.yaml'}",
            f"--audit-log-path={self.audit}",
            f"--disable-admission-plugins={OFF}",
            f"--enable-admission-plugins={ON}",
            "--service-account-issuer=https://muster.test",
            f"--service-account-key-file={self.folder / 'server.key'}",
            f"--service-account-signing-key-file={self.folder / 'server.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
            "--enable-priority-and-fairness=false",
        ]

    def wait_until_ready(self) -> None:
        """Until it answers that it is."""
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends:
            for process in self._running:
                process.check()
            with suppress(OSError, urllib.error.URLError):
                self.request("/readyz")
                return
            time.sleep(0.1)
        raise NotStarted(f"not ready in {START_SECONDS:g} s: {self._running[-1].last_lines()}")

    def apply_crds(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        """Until each of them is served; one that is there already stays as it is."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for crd in definitions:
            with _suppress_existing():
                self.request(path, msgspec.json.encode(crd), "POST")
        for crd in definitions:
            self._until_served(f"{path}/{crd['metadata']['name']}")

    def _until_served(self, path: str) -> None:
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends:
            answer = msgspec.json.decode(self.request(path))
            conditions = {each["type"]: each["status"] for each in answer.get("status", {}).get("conditions") or ()}
            if conditions.get("Established") == "True":
                return
            time.sleep(0.05)
        raise NotStarted(f"{path} is not served")

    def _kubeconfig(self) -> str:
        users = {
            "certificate": {"client-certificate": "admin.crt", "client-key": "admin.key"},
            "token": {"token": ADMIN},
            "nobody": {"token": NO_RIGHTS},
        }
        cluster = {"server": self.url, "certificate-authority": "ca.crt"}
        contexts = [{"name": name, "context": {"cluster": "tests", "user": name}} for name in users]
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "tests", "cluster": cluster}],
                "users": [{"name": name, "user": user} for name, user in users.items()],
                "contexts": contexts,
                "current-context": "certificate",
            }
        )


@contextmanager
def _suppress_existing() -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != CONFLICT:
            raise


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def started(
    programs: dict[str, Path],
    tries: int = 3,
    definitions: Sequence[Mapping[str, Any]] | None = None,
    flags: Sequence[str] = (),
) -> ApiServer:
    """With these CRDs, or all of ours. Another process may take a free port; then the server starts once more."""
    while True:
        server = ApiServer(programs, flags)
        tries -= 1
        try:
            server.start(crds() if definitions is None else definitions)
        except BaseException as error:
            server.stop()
            server.clean(keep_logs=True)
            if tries and isinstance(error, NotStarted):
                continue
            raise
        return server


class _Shared:
    """One server for all who use it in this process, and where its logs are."""

    users = 0
    server: ApiServer


@pytest.fixture(scope="session")
def apiserver(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """A real API server with muster's CRDs, one for all tests of a process; its logs stay where a test fails."""
    programs = envtest.find_programs()
    if programs is None:
        pytest.skip(envtest.HOW_TO_GET_THEM)
    if not _Shared.users:
        _Shared.server = started(programs)
    _Shared.users += 1
    try:
        yield _Shared.server
    finally:
        _Shared.users -= 1
        if not _Shared.users:
            _Shared.server.stop()
            _Shared.server.clean(keep_logs=request.session.testsfailed > 0)


def shared_server() -> ApiServer | None:
    """The one of the fixture, where a test of this process has asked for it already."""
    return _Shared.server if _Shared.users else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One clear line for each program that is missing, however many tests were skipped."""
    for reason in (envtest.HOW_TO_GET_THEM, envtest.HOW_TO_GET_CONTROLLERS):
        skipped = [each for each in terminalreporter.stats.get("skipped", ()) if reason in str(each.longrepr)]
        if skipped:
            terminalreporter.write_line(f"{len(skipped)} tests skipped: {reason}", yellow=True)
