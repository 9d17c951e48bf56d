"""Deletes what earlier tests left on the API server that they share: every test begins on an empty cluster.

Namespaces, accounts and roles stay: without controllers a namespace never goes, and none of them changes a plan.
"""

import http.client
import ssl
import time
from contextlib import closing
from typing import Any, Final

import msgspec

from muster.api import resources
from muster.api.resources import Resource
from tests.support.apiserver.apiserver import ADMIN, ApiServer

OWNERS: Final = (  # first, so that no controller makes their pods again
    resources.POD_CLIQUE_SETS,
    resources.POD_CLIQUE_SCALING_GROUPS,
    resources.POD_CLIQUES,
    resources.POD_GANGS,
    resources.CLUSTER_TOPOLOGY_BINDINGS,
    resources.CRON_JOBS,
    resources.JOBS,
    resources.DEPLOYMENTS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.DAEMON_SETS,
    resources.LEADER_WORKER_SETS,
    resources.JOB_SETS,
    resources.PYTORCH_JOBS,
    resources.TF_JOBS,
    resources.XGBOOST_JOBS,
    resources.JAX_JOBS,
    resources.PADDLE_JOBS,
    resources.MPI_JOBS,
    resources.RAY_JOBS,
    resources.RAY_SERVICES,
    resources.RAY_CLUSTERS,
)
OTHERS: Final = (
    resources.PODS,
    resources.POD_GROUPS,
    resources.BUDGETS,
    resources.NODES,
    resources.QUEUES,
    resources.TOPOLOGIES,
    resources.PRIORITY_CLASSES,
    resources.EVENTS,
    resources.LEASES,
)
KEPT: Final = ("kube-system/", "/system-")  # the API server's own: lease of its identity, priority classes
AT_ONCE: Final = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
NOT_FOUND: Final = 404
TOO_MANY_REQUESTS: Final = 429  # while the storage of a new kind is prepared
TRIES: Final = 100


class Leftovers:
    """What is on one API server, and the revision at which nothing was left."""

    def __init__(self, apiserver: ApiServer) -> None:
        self._apiserver, self._clean_at = apiserver, ""
        self._trust = ssl.create_default_context(cafile=str(apiserver.folder / "ca.crt"))

    def delete(self) -> None:
        """Every object of another test, with its finalizers; at once where nothing was written since the last time."""
        connection = http.client.HTTPSConnection("127.0.0.1", self._apiserver.port, context=self._trust, timeout=30)
        with closing(_Session(connection)) as session:
            if session.revision() == self._clean_at:
                return
            for resource in (*OWNERS, *OTHERS):
                session.delete_all(resource)
            self._clean_at = session.revision()


class _Session:
    """One connection of the administrator."""

    def __init__(self, connection: http.client.HTTPSConnection) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.close()

    def revision(self) -> str:
        return str(self._ask("GET", _path(resources.NODES, "") + "?limit=1")["metadata"]["resourceVersion"])

    def delete_all(self, resource: Resource) -> None:
        for item in self._ask("GET", _path(resource, "")).get("items", ()):
            meta = item["metadata"]
            namespace, name = meta.get("namespace", ""), meta["name"]
            if f"{namespace}/{name}".startswith(KEPT):
                continue
            path = f"{_path(resource, namespace)}/{name}"
            if meta.get("finalizers"):
                self._ask("PATCH", path, {"metadata": {"finalizers": None}})
            self._ask("DELETE", path, AT_ONCE)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Empty where there is no such object or kind; later where a kind has just been installed."""
        for _ in range(TRIES):
            status, text = self._request(method, path, body)
            if status != TOO_MANY_REQUESTS:
                break
            time.sleep(0.1)
        if status == NOT_FOUND:
            return {}
        if status >= 400:
            raise AssertionError(f"{method} {path}: {status} {text[:500]!r}")
        return msgspec.json.decode(text)

    def _request(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": media}
        self._connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def _path(resource: Resource, namespace: str) -> str:
    group = f"/apis/{resource.group}" if resource.group else "/api"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{group}/{resource.version}{inside}/{resource.plural}"
