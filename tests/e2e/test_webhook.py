"""The webhook as a real API server asks it: registered by our manifests, trusted through what muster itself writes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.api.resources import NAMESPACES, POD_GROUPS
from muster.config.settings import Certificates, Webhook
from muster.kube.client.client import connect
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.validation.context import ValidationContext
from muster.webhook import handlers
from muster.webhook.certificates.certificate_bundle import Bundle, issue
from muster.webhook.certificates.certificate_rotation import CONFIGURATIONS, CertificateRotation, ServedCertificate
from muster.webhook.certificates.certificate_sources import FILES, build_source
from tests.e2e.installed import HOME, Response, ask, free_port, gone, put, registered, until
from tests.e2e.kubectl import KUBECTL, MISSING, Kubectl, Refused
from tests.support.apiserver.apiserver import ApiServer
from tests.support.factories import group, podgroup
from tests.support.served import served

PATH = "/apis/scheduling.run.ai/v2alpha2/namespaces/webhook/podgroups"
GOOD = podgroup(group("leader", 1), group("workers", 4), minSubGroup=2, namespace="webhook")
INVALID = podgroup(
    group("roles", of=3),
    group("leader", 1, parent="roles"),
    group("worker", 1, parent="rolse"),
    group("idle"),
    namespace="webhook",
)
ACCOUNT = f"system:serviceaccount:{HOME}:muster"
SETTINGS = Webhook(host="127.0.0.1", timeout_seconds=10)
Now = Callable[[], datetime]


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[Cluster]:
    client = connect(apiserver.kubeconfig)
    await put(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "webhook"}})
    await gone(client, POD_GROUPS, "webhook", "gang")
    yield client
    await gone(client, POD_GROUPS, "webhook", "gang")
    await client.close()


class OneByOne:
    """A handshake for every request: the API server would keep a few connections, and hide what it does not trust."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, closing)


@asynccontextmanager
async def running(
    cluster: Cluster, settings: Webhook, now: Now = lambda: datetime.now(UTC)
) -> AsyncIterator[CertificateRotation]:
    """The parts of `muster run`; the loop that looks after certificates is turned by the test."""
    served_certificate = ServedCertificate()
    rotation = CertificateRotation(
        served_certificate, build_source(settings.certificates, cluster), cluster, settings, now=now, settle_seconds=1.0
    )
    await rotation.reconcile()
    app = handlers.build_app(settings, ValidationContext)
    app.add_middleware(OneByOne)
    async with served(app, tls=served_certificate.context, host=settings.host, port=settings.port):
        yield rotation


def tried(raw: Raw, **query: str) -> tuple[str, str, Raw]:
    """A create that stores nothing; a webhook without side effects is asked all the same."""
    words = "&".join(f"{key}={value}" for key, value in {"dryRun": "All", **query}.items())
    return "POST", f"{PATH}?{words}", raw


async def until_registered(apiserver: ApiServer) -> None:
    """Until the API server calls this webhook, and trusts it."""

    async def is_denied() -> bool:
        reply = await ask(apiserver, *tried(INVALID))
        return "denied the request" in reply.message

    await until(is_denied)


# V1-V6 ----------------------------------------------------------------------------------------------------------------


async def test_an_invalid_object_is_refused_with_every_problem_and_its_hint(
    apiserver: ApiServer, cluster: Cluster
) -> None:
    """V2, V3: what no CRD can say. The client gets the object's name, each place, the rule's sentence and a hint."""
    settings = replace(SETTINGS, port=free_port())
    async with registered(cluster, settings.port), running(cluster, settings):
        await until_registered(apiserver)
        reply = await ask(apiserver, "POST", PATH, INVALID)
    assert reply.status == 422
    assert reply.json["reason"] == "Invalid"
    assert reply.message.startswith('admission webhook "validate.muster.dev" denied the request: ')
    for words in (
        "podgroup `webhook/gang` is invalid",
        "spec.subGroups[0].minSubGroup: needs 3 children, but `roles` has 1 (V2)",
        "hint: at most 1; leave it out for all of them",
        "spec.subGroups[2].parent: `rolse` is not a subgroup here (V3)",
        "hint: known: idle, leader, roles, worker",
        "spec.subGroups[3].minMember: is missing: leaf `idle` must say how many pods it needs (V2)",
    ):
        assert words in reply.message, reply.message
    fields = [cause["field"] for cause in reply.json["details"]["causes"]]
    assert fields == ["spec.subGroups[0].minSubGroup", "spec.subGroups[3].minMember", "spec.subGroups[2].parent"]
    with pytest.raises(ApiError, match="not found"):
        await cluster.get(POD_GROUPS, "webhook", "gang")


@pytest.mark.parametrize(
    ("path", "raw", "says"),
    [
        (
            "/apis/scheduling.run.ai/v2/queues",
            {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": "webhook"},
                "spec": {"parentQueue": "webhook"},
            },
            "spec.parentQueue",
        ),
        (
            "/apis/kai.scheduler/v1alpha1/topologies",
            {
                "apiVersion": "kai.scheduler/v1alpha1",
                "kind": "Topology",
                "metadata": {"name": "webhook"},
                "spec": {"levels": [{"nodeLabel": f"topology.kubernetes.io/{level}"} for level in ("zone", "region")]},
            },
            "spec.levels[1].nodeLabel",
        ),
    ],
    ids=["Queue", "Topology"],
)
async def test_queues_and_topologies_are_validated_too(
    apiserver: ApiServer, cluster: Cluster, path: str, raw: Raw, says: str
) -> None:
    """Every kind of the configuration reaches its rules."""
    settings = replace(SETTINGS, port=free_port())
    async with registered(cluster, settings.port), running(cluster, settings):
        await until_registered(apiserver)
        reply = await ask(apiserver, "POST", f"{path}?dryRun=All", raw)
    assert reply.status == 422
    assert "denied the request" in reply.message
    assert says in reply.message


async def test_what_is_valid_passes_and_what_is_doubtful_passes_with_a_warning(
    apiserver: ApiServer, cluster: Cluster
) -> None:
    """V6 reaches the client as `Warning:`, which kubectl prints; a good object passes without a word."""
    settings = replace(SETTINGS, port=free_port())
    doubtful = podgroup(
        group("leader", 1), *(group(f"workers-{i}", 1) for i in range(3)), minSubGroup=3, namespace="webhook"
    )
    async with registered(cluster, settings.port), running(cluster, settings):
        await until_registered(apiserver)
        good, warned = await ask(apiserver, *tried(GOOD)), await ask(apiserver, *tried(doubtful))
    assert (good.status, good.warnings) == (201, [])
    assert warned.status == 201
    (warning,) = warned.warnings
    assert "3 of 4 may leave out every `leader`" in warning
    assert "(V6); hint: nest those" in warning


async def test_an_update_is_judged_against_what_is_stored(apiserver: ApiServer, cluster: Cluster) -> None:
    """V4: what was broken before the webhook came may be updated with a warning, and not get worse. V5: a running
    semi-preemptible gang keeps its minimum."""
    settings = replace(SETTINGS, port=free_port())
    stored = podgroup(group("a"), group("b", 2), namespace="webhook", preemptibility="semi-preemptible")
    assert (await ask(apiserver, "POST", PATH, stored)).status == 201, "the webhook is not called yet"
    merge = "application/merge-patch+json"
    async with registered(cluster, settings.port), running(cluster, settings):
        await until_registered(apiserver)
        updated = await ask(apiserver, "PATCH", f"{PATH}/gang", {"spec": {"queue": "another"}}, merge)
        assert updated.status == 200, updated.message
        assert any("leaf `a` must say how many pods it needs" in warning for warning in updated.warnings)
        worse = await ask(apiserver, "PATCH", f"{PATH}/gang", {"spec": {"subGroups": [group("a"), group("b")]}}, merge)
        assert worse.status == 422
        assert "leaf `b` must say" in worse.message
        assert "leaf `a`" not in worse.message
        runs = {"status": {"phase": "Running", "running": 3, "satisfied": True}}
        assert (await ask(apiserver, "PATCH", f"{PATH}/gang/status", runs, merge)).status == 200
        raised = await ask(
            apiserver, "PATCH", f"{PATH}/gang", {"spec": {"subGroups": [group("a"), group("b", 3)]}}, merge
        )
        assert raised.status == 422
        assert "(V5)" in raised.message
        lowered = await ask(
            apiserver, "PATCH", f"{PATH}/gang", {"spec": {"subGroups": [group("a"), group("b", 1)]}}, merge
        )
        assert lowered.status == 200, lowered.message


# D --------------------------------------------------------------------------------------------------------------------


async def test_older_dialects_are_converted_where_that_is_wanted(apiserver: ApiServer, cluster: Cluster) -> None:
    """D1, D4: rewritten before the CRD sees it; without the option the CRD refuses it, and says what to do."""
    older = podgroup(minMember=2, namespace="webhook")
    older["spec"]["subgroups"] = [group("a", 1), group("b", 9)]
    settings = replace(SETTINGS, port=free_port(), convert_older_dialects=True)
    async with registered(cluster, settings.port, converting=True), running(cluster, settings):
        await until_registered(apiserver)

        async def converts() -> bool:
            return (await ask(apiserver, *tried(older))).status == 201

        await until(converts)
        reply = await ask(apiserver, "POST", PATH, older)
    assert reply.status == 201, reply.message
    assert reply.json["spec"]["subGroups"] == [group("a", 1), group("b", 9)]
    assert reply.json["spec"]["minSubGroup"] == 2
    assert not {"subgroups", "minMember"} & set(reply.json["spec"])
    assert any(warning.startswith("converted: ") for warning in reply.warnings)
    await gone(cluster, POD_GROUPS, "webhook", "gang")

    async def refused() -> bool:
        reply = await ask(apiserver, *tried(older))
        return reply.status == 422 and "run `muster convert` (D4)" in reply.message

    await until(refused)


@pytest.mark.skipif(KUBECTL is None, reason=MISSING)
@pytest.mark.parametrize("way", ["--server-side", "--server-side=false"])
async def test_a_manifest_in_an_older_dialect_is_edited_as_any_other(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path, way: str
) -> None:
    """D1, D2, D3, D4: `kubectl apply` lays the manifest over what was converted before. What it says now is stored, the
    same again changes nothing, and conflicting numbers of two managers are refused."""
    kubectl = Kubectl(apiserver.kubeconfig, tmp_path)
    four = [group(name, 8) for name in "abcd"]

    async def applied(**spec: Any) -> Raw:
        await kubectl("apply", way, "-f", "-", send=podgroup(namespace="webhook") | {"spec": spec})
        return await stored()

    async def stored() -> Raw:
        stored_spec: Raw = (await cluster.get(POD_GROUPS, "webhook", "gang"))["spec"]
        return {
            name: value for name, value in stored_spec.items() if name not in ("markUnschedulable", "schedulingBackoff")
        }

    settings = replace(SETTINGS, port=free_port(), convert_older_dialects=True)
    async with registered(cluster, settings.port, converting=True), running(cluster, settings):
        await until_registered(apiserver)
        for need in (2, 2, 3, 2):
            assert await applied(minMember=need, subGroups=four) == {"minSubGroup": need, "subGroups": four}
        await kubectl("patch", "podgroup", "-n", "webhook", "gang", "--type=merge", '-p={"spec":{"minMember":3}}')
        assert await stored() == {"minSubGroup": 3, "subGroups": four}

        await gone(cluster, POD_GROUPS, "webhook", "gang")
        await applied(minMember=2, subGroups=four)
        await kubectl("patch", "podgroup", "-n", "webhook", "gang", "--type=merge", '-p={"spec":{"minSubGroup":4}}')
        with pytest.raises(Refused, match=r"minMember: 2 of `kubectl.*` and .*minSubGroup: 4 of `kubectl-patch`"):
            await applied(minMember=2, subGroups=four)
        assert (await stored())["minSubGroup"] == 4

        await gone(cluster, POD_GROUPS, "webhook", "gang")
        both = {"minMember": 3, "minSubGroup": 2, "subGroups": four}
        for _ in range(2):
            assert await applied(**both) == {"minSubGroup": 2, "subGroups": four}
        await kubectl("replace", "-f", "-", send=podgroup(namespace="webhook") | {"spec": both})
        assert await stored() == {"minSubGroup": 2, "subGroups": four}

        await gone(cluster, POD_GROUPS, "webhook", "gang")
        for leaves in (four, four, four[:3]):
            assert await applied(minMember=2, subgroups=leaves) == {"minSubGroup": 2, "subGroups": leaves}

        await gone(cluster, POD_GROUPS, "webhook", "gang")
        for level, together in (("rack", "ab"), ("rack", "ab"), ("zone", "ab"), ("zone", "bc")):
            held = {"subGroups": list(together), "constraint": {"requiredTopologyLevel": level}}
            converted = await applied(subGroups=four, topologyConstraints={"subGroupSets": [held]})
            assert {name: part.get("parent") for name, part in named(converted).items() if part.get("minMember")} == {
                name: "together" if name in together else None for name in "abcd"
            }
            assert named(converted)["together"] == {"name": "together", "topologyConstraint": held["constraint"]}


def named(spec: Raw) -> dict[str, Raw]:
    """SubGroups by name."""
    return {part["name"]: part for part in spec["subGroups"]}


# certificates ---------------------------------------------------------------------------------------------------------


async def bundles(cluster: Cluster) -> set[str]:
    raw = await cluster.get(CONFIGURATIONS[0], "", "muster")
    return {hook["clientConfig"]["caBundle"] for hook in raw["webhooks"]}


async def failures(apiserver: ApiServer, done: asyncio.Event) -> list[Response]:
    """One client that never stops asking."""
    failed = []
    while not done.is_set():
        reply = await ask(apiserver, *tried(GOOD))
        failed += [reply] if reply.status != 201 else []
    return failed


@pytest.mark.parametrize(
    ("authority_days", "another"), [(3650, False), (120, True)], ids=["a certificate", "an authority"]
)
async def test_what_is_renewed_is_trusted_without_a_gap(
    apiserver: ApiServer, cluster: Cluster, authority_days: int, another: bool
) -> None:
    """Made 65 days ago for 90: it is renewed while clients ask all the time, and none of them is refused."""
    settings = replace(SETTINGS, port=free_port(), certificates=Certificates(authority_validity_days=authority_days))
    back = [timedelta(days=65)]
    async with (
        registered(cluster, settings.port),
        running(cluster, settings, lambda: datetime.now(UTC) - back[0]) as rotation,
    ):
        await until_registered(apiserver)
        before, done = await bundles(cluster), asyncio.Event()
        shown = rotation._served
        clients = [asyncio.create_task(failures(apiserver, done)) for _ in range(6)]
        await asyncio.sleep(0.5)
        back[0] = timedelta()
        await rotation.reconcile()
        await asyncio.sleep(1.5)
        done.set()
        refused = [reply.message for replies in await asyncio.gather(*clients) for reply in replies]
        assert rotation._served != shown
        assert (await bundles(cluster) != before) == another
    assert refused == []


async def test_what_the_user_brings_is_shown_and_trusted(
    apiserver: ApiServer, cluster: Cluster, tmp_path: Path
) -> None:
    """`files`: a folder with `ca.crt`, as cert-manager fills it; and another authority in it later on."""

    def bring() -> None:
        bundle: Bundle = issue(Certificates(), datetime.now(UTC))
        for field in ("certificate", "key", "authority"):
            (tmp_path / FILES[field]).write_bytes(getattr(bundle, field))

    bring()
    brought = Certificates(source="files", folder=str(tmp_path))
    settings = replace(SETTINGS, port=free_port(), certificates=brought)
    async with registered(cluster, settings.port), running(cluster, settings) as rotation:
        await until_registered(apiserver)
        before = await bundles(cluster)
        bring()
        await rotation.reconcile()
        assert await bundles(cluster) != before
        await until_registered(apiserver)


# failing --------------------------------------------------------------------------------------------------------------


async def test_writes_of_muster_itself_ask_no_webhook_and_those_of_others_fail_closed(
    apiserver: ApiServer, cluster: Cluster
) -> None:
    """S2: notes and statuses are written while no webhook answers; nobody else passes, of a similar name either."""
    assert (await ask(apiserver, "POST", PATH, GOOD)).status == 201, "no webhook is called yet"
    note = {"metadata": {"annotations": {"kai.scheduler/stale-podgroup-timestamp": "2026-01-01T00:00:00Z"}}}
    merge = "application/merge-patch+json"
    async with registered(cluster, free_port(), converting=True):

        async def patch(path: str, raw: Raw, user: str = "") -> Response:
            return await ask(apiserver, "PATCH", f"{PATH}/{path}", raw, merge, user)

        async def is_closed() -> bool:
            reply = await patch("gang?dryRun=All", note)
            return reply.status == 500 and 'failed calling webhook "convert.muster.dev"' in reply.message

        await until(is_closed)
        for user in ("", f"{ACCOUNT}-2", "system:serviceaccount:webhook:muster", "muster"):
            assert (await patch("gang", note, user)).status == 500, user
        assert (await patch("gang", note, ACCOUNT)).status == 200
        assert (await patch("gang/status", {"status": {"phase": "Running"}}, ACCOUNT)).status == 200
        created = podgroup(namespace="webhook") | {"metadata": {"name": "made-by-muster", "namespace": "webhook"}}
        assert (await ask(apiserver, "POST", f"{PATH}?dryRun=All", created, user=ACCOUNT)).status == 201


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_the_failure_policy_of_the_configuration_holds(
    apiserver: ApiServer, cluster: Cluster, policy: str, status: int
) -> None:
    """muster itself writes it to what is registered. While it is down, `Fail` lets nothing in, `Ignore` everything
    that the CRD allows."""
    settings = replace(SETTINGS, port=free_port(), failure_policy=policy)
    async with registered(cluster, settings.port):
        async with running(cluster, settings):
            await until_registered(apiserver)
            (hook,) = (await cluster.get(CONFIGURATIONS[0], "", "muster"))["webhooks"]
            assert (hook["failurePolicy"], hook["timeoutSeconds"]) == (policy, 10)

        async def ends() -> bool:
            reply = await ask(apiserver, *tried(GOOD))
            return reply.status == status

        await until(ends)
        reply = await ask(apiserver, *tried(INVALID))
        assert reply.status == status
        if policy == "Fail":
            assert 'failed calling webhook "validate.muster.dev"' in reply.message
