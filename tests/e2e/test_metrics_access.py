"""`/metrics` behind a token, on a real API server: muster asks it with the rights that the chart installs."""

from pathlib import Path

import yaml

from muster.api.resources import Resource
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from tests.e2e.installed import HOME, ask, free_port, manifests, put, until
from tests.e2e.muster_process import installed, kubeconfig, muster_run, resource_of, token
from tests.support.apiserver.apiserver import ApiServer
from tests.support.http import get

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


async def account(apiserver: ApiServer, cluster: Cluster, name: str) -> str:
    """A token of a new account."""
    meta = {"name": name, "namespace": HOME}
    await put(cluster, SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{name}/token"
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    return str((await ask(apiserver, "POST", path, wanted)).json["status"]["token"])


def reader_binding(name: str) -> Raw:
    return {
        "apiVersion": BINDINGS.api_version,
        "kind": BINDINGS.kind,
        "metadata": {"name": f"test-{name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}],
    }


async def test_metrics_are_read_by_who_kubernetes_allows_to(apiserver: ApiServer, tmp_path: Path) -> None:
    """No token, one that is made up, one of an account without the right, and one with it."""
    cluster, port = connect(apiserver.kubeconfig), free_port()
    settings = {
        "scheduling": {"schedulerNames": ["metrics-access"]},
        "leaderElection": {"enabled": False},
        "grouping": {"enabled": False},
        "grove": {"enabled": False},
        "webhook": {"enabled": False},
        "observability": {"host": "127.0.0.1", "port": port, "metricsAccess": "kubernetes"},
    }
    async with installed(cluster, free_port()):
        for raw in manifests("optional/metrics-access.yaml"):
            await put(cluster, resource_of(raw), raw)
        poor, good = [await account(apiserver, cluster, name) for name in ("visitor", "prometheus")]
        await put(cluster, BINDINGS, reader_binding("prometheus"))
        access = kubeconfig(apiserver, await token(apiserver))
        url = f"http://127.0.0.1:{port}"
        async with muster_run(tmp_path, yaml.safe_dump(settings), access):

            async def is_ready() -> bool:
                return (await get(f"{url}/readyz"))[0] == 200

            await until(is_ready)
            assert (await get(f"{url}/metrics"))[0] == 401
            assert (await get(f"{url}/metrics", "made-up"))[0] == 401
            assert await get(f"{url}/metrics", poor) == (
                403,
                f"`system:serviceaccount:{HOME}:visitor` may not get /metrics\n",
            )
            status, text = await get(f"{url}/metrics", good)
            assert status == 200
            assert 'muster_api_requests_total{code="201",verb="create"}' in text, "the reviews themselves"
            assert (await get(f"{url}/livez"))[0] == 200, "probes need no token"
    await cluster.close()
