"""Warnings about PodCliqueSets, as kubectl prints them: the embedded cluster says what the webhook would."""

from typing import Any

import pytest

from muster.embedded.cluster_store import ClusterStore
from muster.embedded.rest.api_server import application, server_context
from muster.validation.check import check
from muster.validation.context import ValidationContext
from muster.workloads.types import Raw
from tests.support.asgi import ask
from tests.support.grove import clique, pod_clique_set

PATH = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
OURS = ("muster", "second")


def given(scheduler: str, **fields: Any) -> Raw:
    name = {"schedulerName": scheduler} if scheduler else {}
    spec = {"podSpec": {"containers": [{"name": "main", "image": "image:1"}], **name}}
    return pod_clique_set(clique("a", spec=spec), metadata={"namespace": "default"}, **fields)


@pytest.mark.parametrize("name", ["", "muster", "second"])
def test_a_set_that_names_our_scheduler_or_none_has_no_warning(name: str) -> None:
    assert not check(given(name), None, ValidationContext(schedulers=OURS))


def test_a_set_of_another_scheduler_is_valid_and_warned_of() -> None:
    """Nothing becomes of it here (N6): without a word, its owner would look for pods in vain."""
    (problem,) = check(given("other"), None, ValidationContext(schedulers=OURS))
    assert (problem.severity, problem.rule) == ("warning", "N6")
    assert "scheduler `other`" in problem.says
    assert "`muster`" in problem.hint


def test_without_the_names_of_our_schedulers_nothing_is_said() -> None:
    assert not check(given("other"))


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_every_write_of_such_a_set_warns(method: str) -> None:
    app = application(server_context(ClusterStore(), schedulers=OURS))
    reply = await ask(app, "POST", PATH, given("other"))
    if method == "PUT":
        reply = await ask(app, "PUT", f"{PATH}/w", {**reply.json, "spec": {**reply.json["spec"], "replicas": 2}})
    elif method == "PATCH":
        patch = {"content-type": "application/merge-patch+json"}
        reply = await ask(app, "PATCH", f"{PATH}/w", {"spec": {"replicas": 3}}, patch)
    assert reply.status in (200, 201)
    assert "makes no pods of it; hint: `muster`" in reply.headers["warning"]


async def test_a_set_of_ours_is_stored_without_a_warning() -> None:
    reply = await ask(application(server_context(ClusterStore(), schedulers=OURS)), "POST", PATH, given("muster"))
    assert reply.status == 201
    assert "warning" not in reply.headers
