"""Bindings through the HTTP client: one request a try; an unconfirmed one is settled by reading its pod (I1, I2)."""

import asyncio
import time

import pytest
from aiohttp import web

from muster.kube.client.client import Kubernetes
from muster.kube.client.credentials import Access, Credentials
from muster.kube.client.http import Http, Limits
from muster.kube.leadership import AlwaysLeading
from muster.planning.decision import Binding
from muster.scheduler.apply import pod_api
from muster.scheduler.apply.apply_result import ApplyTally
from muster.scheduler.apply.binder import Binder, BindingWrite
from muster.scheduler.apply.pod_api import PodApi
from muster.scheduler.apply.write_state import WriteResult
from muster.scheduler.assumed_pods import AssumedPods
from muster.scheduler.observer import NoObserver
from tests.support.factories import Raw, stored_pod
from tests.unit.kube.client.test_client import (
    LOST,
    Answer,
    Script,
    cluster,
    fails,
    hangs_up,
    says,
    streams,
)

TO_N1 = Binding("team", "a", "n1", "g", "", "core")
BOUND = says({"kind": "Status"})


def target_pod(node: str = "", uid: str = "u1") -> Raw:
    """The pod of the binding, as the API server returns it."""
    return stored_pod("a", uid=uid, on=node)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_api, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(pod_api, "LONGEST_SECONDS", 0.01)


class Bench:
    """One binding of a pod to node n1."""

    def __init__(self, client: Kubernetes) -> None:
        self.assumed_pods = AssumedPods()
        self.binder = Binder(PodApi(client, AlwaysLeading(), time.monotonic, 10.0, NoObserver()), self.assumed_pods)
        self.write = BindingWrite(self.binder, TO_N1, "u1", 0, ApplyTally())

    async def bind(self) -> WriteResult:
        sent = await self.write.send()
        return sent if sent is not WriteResult.UNCONFIRMED else await self.write.settle()

    async def read_repeatedly(self, script: Script, readings: int = 6) -> None:
        """Until the pod was read so often, and the binding is still unconfirmed."""
        binding = asyncio.create_task(self.bind())
        async with asyncio.timeout(10):
            while script.verbs.count("GET") < readings:
                assert not binding.done()
                await asyncio.sleep(0.001)
        assert (set(self.binder.unconfirmed), len(self.assumed_pods)) == ({"team/g"}, 1)
        binding.cancel()
        await asyncio.wait([binding])


async def test_a_binding_that_is_accepted_is_one_request() -> None:
    script = Script(BOUND)
    async with cluster(script) as (client, _):
        assert await Bench(client).bind() is WriteResult.CONFIRMED
    assert script.verbs == ["POST"]


LOST_ANSWERS = {
    "connection lost": hangs_up(),
    "500": fails(500, "InternalError"),
    "504": fails(504, "Timeout"),
    "a proxy's page": streams(b"<html>welcome"),
    **LOST,
}


@pytest.mark.parametrize("lost", LOST_ANSWERS.values(), ids=LOST_ANSWERS)
async def test_a_binding_without_a_clear_answer_is_read_before_anything_else(lost: Answer) -> None:
    """Sent again blindly, it would be refused because of itself, and that would be taken for a clear no."""
    script = Script(lost, says(target_pod(node="n1")))
    async with cluster(script, Limits(answer_seconds=0.2)) as (client, _):
        assert await Bench(client).bind() is WriteResult.CONFIRMED
    assert script.verbs == ["POST", "GET"]


async def test_a_binding_that_was_not_carried_out_is_sent_again() -> None:
    script = Script(hangs_up(), says(target_pod()), BOUND)
    async with cluster(script) as (client, _):
        assert await Bench(client).bind() is WriteResult.CONFIRMED
    assert script.verbs == ["POST", "GET", "POST"]


async def test_a_passing_failure_of_the_api_server_does_not_hold_up_the_gang() -> None:
    """One 500 is followed up within `send`: the binding is confirmed in its cycle, and no failure is reported."""
    script = Script(fails(500, "InternalError"), says(target_pod()), BOUND)
    async with cluster(script) as (client, _):
        bench = Bench(client)
        assert await bench.write.send() is WriteResult.CONFIRMED
    assert script.verbs == ["POST", "GET", "POST"]
    assert (bench.write.tally.result().failures, bench.binder.unconfirmed) == ((), {})


async def test_a_conflict_with_the_own_lost_binding_is_no_rejection() -> None:
    """The first try was still under way when the pod was read."""
    script = Script(hangs_up(), says(target_pod()), fails(409, "Conflict"), says(target_pod(node="n1")))
    async with cluster(script) as (client, _):
        assert await Bench(client).bind() is WriteResult.CONFIRMED
    assert script.verbs == ["POST", "GET", "POST", "GET"]


@pytest.mark.parametrize("lost", [hangs_up(), fails(500, "InternalError"), fails(502), fails(520)])
@pytest.mark.parametrize("last", [fails(403, "Forbidden"), fails(409, "Conflict"), fails(429), fails(500)])
async def test_a_binding_is_unconfirmed_as_long_as_a_try_is_open(lost: Answer, last: Answer) -> None:
    """A pod without a node says nothing about a request that the API server, or its etcd, may still carry out."""
    tries = iter([lost])

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (says(target_pod()) if request.method == "GET" else next(tries, last))(request)

    script = Script(answer)
    async with cluster(script) as (client, _):
        await Bench(client).read_repeatedly(script)
    assert script.verbs[:2] == ["POST", "GET"], "never sent again blindly"


UNREADABLE = {
    "forbidden": fails(403, "Forbidden"),
    "a proxy's page": streams(b"<html>"),
    "nothing": says({}),
    "without a uid": says({"metadata": {"name": "a"}}),
    "of another name": says({"metadata": {"name": "b", "uid": "u2"}}),
    "a node that is no name": says({**target_pod(), "spec": {"nodeName": 7}}),
}


@pytest.mark.parametrize("unreadable", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_pod_that_cannot_be_read_leaves_its_binding_unconfirmed(unreadable: Answer) -> None:
    """Its node's resources must not be given to others, and it is not sent again blindly."""
    script = Script(fails(502), unreadable)
    async with cluster(script, Limits(attempts=2)) as (client, _):
        await Bench(client).read_repeatedly(script)
    assert script.verbs.count("POST") == 1


@pytest.mark.parametrize(
    "elsewhere",
    [says(target_pod(node="n2")), says(target_pod(uid="u2", node="n1")), fails(404, "NotFound")],
    ids=["other node", "other uid", "gone"],
)
async def test_a_lost_binding_of_a_pod_that_is_elsewhere_is_rejected(elsewhere: Answer) -> None:
    script = Script(hangs_up(), elsewhere)
    async with cluster(script) as (client, _):
        bench = Bench(client)
        assert await bench.bind() is WriteResult.REJECTED
    assert (script.verbs, len(bench.assumed_pods), bench.binder.unconfirmed) == (["POST", "GET"], 0, {})


async def test_a_conflict_at_the_first_try_is_a_rejection_without_reading() -> None:
    script = Script(fails(409, "Conflict"))
    async with cluster(script) as (client, _):
        assert await Bench(client).bind() is WriteResult.REJECTED
    assert script.verbs == ["POST"]


async def test_a_binding_that_could_not_be_sent_is_rejected_without_reading() -> None:
    """No API server listens: it cannot have carried out anything, so the next plan is free to choose again."""

    async def pause(_: float) -> None:
        return None

    client = Kubernetes(Http(Credentials(lambda: Access("http://127.0.0.1:9")), Limits(attempts=2), pause))
    bench = Bench(client)
    assert await bench.write.send() is WriteResult.REJECTED
    assert len(bench.assumed_pods) == 0
    await client.close()
