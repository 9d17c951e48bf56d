"""Reviews of PodCliqueSets and bindings: refused with every problem, defaulted, and judged among what exists."""

from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette

from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, Resource
from muster.config.settings import Webhook
from muster.validation.context import ValidationContext
from muster.webhook import handlers
from tests.support.admission_reviews import patched, sent
from tests.support.asgi import call
from tests.support.factories import Raw
from tests.support.grove import clique, group, pod_clique_set

APP = handlers.build_app(Webhook())
CONSTRAINT = {"topologyName": "dc", "pack": {"required": "rack"}}


def app_among(*others: Raw) -> Starlette:
    """The webhook in a cluster that has these of Grove's objects."""

    def read(resource: Resource) -> Iterable[Raw]:
        return (raw for raw in others if raw["kind"] == resource.kind)

    return handlers.build_app(Webhook(), lambda: ValidationContext(read_others=read))


async def answer(raw: Raw, old: Any = None, *, path: str = "/validate", app: Starlette = APP, **more: Any) -> Raw:
    answered = await call(app, path, sent(raw, old, **more))
    assert answered.status == 200, answered.text
    response: Raw = answered.json["response"]
    return response


def binding(*domains: str) -> Raw:
    kind = {"apiVersion": CLUSTER_TOPOLOGY_BINDINGS.api_version, "kind": CLUSTER_TOPOLOGY_BINDINGS.kind}
    levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    return {**kind, "metadata": {"name": "dc"}, "spec": {"levels": levels}}


async def test_a_good_set_passes_without_a_word() -> None:
    response = await answer(pod_clique_set(clique("a", 2)))
    assert response == {"uid": response["uid"], "allowed": True}


async def test_every_problem_of_a_set_is_reported_at_once() -> None:
    """In the message for people, and as causes for programs."""
    response = await answer(pod_clique_set(clique("a", 2, 3), clique("a"), resourceSharing=[{"name": "x"}]))
    assert not response["allowed"]
    causes = {cause["field"]: cause["reason"] for cause in response["status"]["details"]["causes"]}
    assert causes == {
        "spec.template.cliques[0].spec.minAvailable": "FieldValueInvalid",
        "spec.template.cliques[1].name": "FieldValueInvalid",
        "spec.template.cliques[1].spec.roleName": "FieldValueInvalid",
        "spec.template.resourceSharing": "FieldValueForbidden",
    }
    assert response["status"]["message"].startswith("podcliqueset `team/w` is invalid")


async def test_an_update_that_changes_what_gangs_need_is_refused() -> None:
    response = await answer(pod_clique_set(clique("a", 3, 1)), pod_clique_set(clique("a", 3, 2)))
    (cause,) = response["status"]["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.template.cliques[0].spec.minAvailable", "FieldValueForbidden")


async def test_a_set_that_is_terminating_can_lose_its_finalizers() -> None:
    """Whatever its spec."""
    raw = pod_clique_set(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert (await answer(raw, pod_clique_set(clique("a"))))["allowed"]


async def test_defaults_are_set_before_a_set_is_stored() -> None:
    """Whether or not older dialects are converted."""
    raw = pod_clique_set(clique("a", 3), clique("b"), groups=[group("g", "b")])
    stored = patched(raw, await answer(raw, path="/mutate"))
    template = stored["spec"]["template"]
    assert template["cliques"][0]["spec"]["minAvailable"] == 3
    assert template["terminationDelay"] == "4h0m0s"
    assert "patch" not in await answer(stored, path="/mutate"), "a second time changes nothing"
    assert (await answer(stored))["allowed"]


async def test_a_replaced_set_keeps_its_minimum() -> None:
    """`kubectl replace` with a manifest that never stated it."""
    old, new = pod_clique_set(clique("a", 3, 3)), pod_clique_set(clique("a", 5))
    stored = patched(new, await answer(new, old, path="/mutate"))
    assert stored["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] == 3
    assert (await answer(stored, old))["allowed"]


async def test_a_set_without_its_binding_is_refused() -> None:
    """It would start without its constraint: it does not wait, as a PodGroup does."""
    raw = pod_clique_set(clique("a"), topologyConstraint=CONSTRAINT)
    assert (await answer(raw, app=app_among(binding("zone", "rack"))))["allowed"]
    for around in ([], [binding("zone")]):
        response = await answer(raw, app=app_among(*around))
        assert not response["allowed"]
        assert "ClusterTopologyBinding `dc`" in response["status"]["message"]


async def test_while_bindings_are_not_listed_nothing_is_said_about_them() -> None:
    """After a start: a set that is valid must not be refused."""
    assert (await answer(pod_clique_set(clique("a"), topologyConstraint=CONSTRAINT)))["allowed"]


async def test_a_set_that_shares_a_name_with_another_is_refused() -> None:
    other = pod_clique_set(clique("a"), groups=[group("g", "a", replicas=2)])
    response = await answer(pod_clique_set(clique("a"), name="w-0-g"), app=app_among(other))
    assert not response["allowed"]
    assert "`w-0-g-0` of a PodGang" in response["status"]["message"]


async def test_bindings_are_validated() -> None:
    assert (await answer(binding("zone", "rack")))["allowed"]
    response = await answer(binding("rack", "rack"))
    causes = [cause["field"] for cause in response["status"]["details"]["causes"]]
    assert causes == ["spec.levels[1].domain", "spec.levels[1].key"]
