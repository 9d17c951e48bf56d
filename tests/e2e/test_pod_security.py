"""The pods of deploy/manifests in the namespace of deploy/manifests, as an API server admits them."""

from copy import deepcopy

import pytest

from muster.api.resources import NAMESPACES
from muster.kube.client.client import connect
from muster.kube.cluster import Raw
from tests.e2e.installed import HOME, ask, manifests, put
from tests.support.apiserver.apiserver import ApiServer


def pod() -> Raw:
    """A pod as the controller of the Deployment makes it."""
    (deployment,) = [raw for raw in manifests("50-deployment.yaml") if raw["kind"] == "Deployment"]
    template = deepcopy(deployment["spec"]["template"])
    template["metadata"] |= {"name": "muster", "namespace": HOME}
    return {"apiVersion": "v1", "kind": "Pod", **template}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("allowPrivilegeEscalation", True),
        ("capabilities", {}),
        ("runAsNonRoot", False),
        ("seccompProfile", {"type": "Unconfined"}),
    ],
)
async def test_the_pods_are_restricted_and_the_namespace_admits_no_others(
    apiserver: ApiServer, field: str, value: object
) -> None:
    client = connect(apiserver.kubeconfig)
    await put(client, NAMESPACES, manifests("00-namespace.yaml")[0])
    await client.close()
    path = f"/api/v1/namespaces/{HOME}/pods?dryRun=All"
    reply = await ask(apiserver, "POST", path, pod())
    assert (reply.status, reply.warnings) == (201, []), reply.message
    loose = pod()
    loose["spec"]["containers"][0]["securityContext"][field] = value
    reply = await ask(apiserver, "POST", path, loose)
    assert reply.status == 403
    assert 'violates PodSecurity "restricted:latest"' in reply.message
