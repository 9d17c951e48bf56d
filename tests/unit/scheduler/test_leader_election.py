"""One leader at a time (I9), whatever is lost on the way and whenever."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster.api.resources import EVENTS, LEASES, Resource
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.scheduler.leader_election import Leader, LeaderProblem, LeaseSettings
from tests.support.live.faults import Call, Fault, Faulty

TERMS = LeaseSettings(namespace="default")
STUCK = LeaderProblem("CycleStuck", "the cycle makes no progress")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)


def candidate(cluster: MemoryCluster | Faulty, name: str, clock: Hands) -> Leader:
    return Leader(cluster, name, TERMS, clock, clock.wall)


def leads(leader: Leader) -> bool:
    """Read again at each call, so that mypy does not narrow it."""
    return leader.leading


async def test_the_first_candidate_takes_a_free_lease() -> None:
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    assert not leads(first)
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    assert (leads(first), leads(second)) == (True, False)
    spec = (await memory.get(LEASES, "default", "muster"))["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", 15, 0)


async def test_the_lease_is_what_every_version_writes() -> None:
    """Replicas of two versions share it in a rolling update: the fields of client-go's leader election, as they are."""
    memory, clock = MemoryCluster(), Hands()
    await candidate(memory, "first", clock).acquire_or_renew()
    lease = await memory.get(LEASES, "default", "muster")
    assert (lease["apiVersion"], lease["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert lease["spec"] == {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:01:40.000000Z",
        "renewTime": "2026-01-01T00:01:40.000000Z",
        "leaseTransitions": 0,
    }
    newer = {**lease, "spec": {**lease["spec"], "strategy": "OldestEmulationVersion", "preferredHolder": "second"}}
    await memory.replace(LEASES, newer)
    second = candidate(memory, "second", clock)
    await second.acquire_or_renew()
    assert not leads(second), "held, whatever else it says"


async def test_a_leader_stops_before_another_may_begin() -> None:
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    clock.seconds += 12
    assert not leads(first), "three seconds before the end"
    await second.acquire_or_renew()
    assert not leads(second)
    clock.seconds += 3
    await second.acquire_or_renew()
    assert leads(second)
    await first.acquire_or_renew()
    assert not leads(first)
    assert (await memory.get(LEASES, "default", "muster"))["spec"]["leaseTransitions"] == 1


async def test_a_lease_that_is_renewed_is_not_taken() -> None:
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    for _ in range(10):
        await first.acquire_or_renew()
        await second.acquire_or_renew()
        clock.seconds += 5
        assert (leads(first), leads(second)) == (True, False)


async def test_the_lease_counts_from_when_it_was_requested() -> None:
    """An answer that took ten seconds leaves two."""
    memory, clock = MemoryCluster(), Hands()

    def slow(call: Call) -> Fault | None:
        clock.seconds += 10 if call.verb == "create" else 0
        return None

    leader = candidate(Faulty(memory, slow), "slow", clock)
    await leader.acquire_or_renew()
    assert leads(leader)
    clock.seconds += 2
    assert not leads(leader)


async def test_a_lost_answer_is_not_leadership_until_the_next_attempt() -> None:
    memory, clock = MemoryCluster(), Hands()

    def script(call: Call) -> Fault | None:
        return "unanswered" if call.verb == "create" else None

    leader = candidate(Faulty(memory, script), "only", clock)
    with pytest.raises(ApiError):
        await leader.acquire_or_renew()
    assert not leads(leader)
    await leader.acquire_or_renew()
    assert leads(leader)


async def test_renewals_whose_answers_are_lost_keep_the_lease() -> None:
    """They are stored, so no other may lead: if the leader stopped as well, none would."""
    memory, clock, lost = MemoryCluster(), Hands(), False

    def script(call: Call) -> Fault | None:
        return "unanswered" if lost and call.verb == "replace" else None

    first, second = candidate(Faulty(memory, script), "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()
    lost = True
    for _ in range(20):
        clock.seconds += TERMS.renew_seconds
        with pytest.raises(ApiError):
            await first.acquire_or_renew()
        await second.acquire_or_renew()
        assert (leads(first), leads(second)) == (True, False)


async def test_a_leader_that_resigns_is_succeeded_at_once() -> None:
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    await second.resign()
    assert leads(first), "only the leader's own word counts"
    await first.resign()
    assert not leads(first)
    await second.acquire_or_renew()
    assert leads(second)


class Gone(Faulty):
    """An API server that does not answer any more: with an error, or not at all."""

    def __init__(self, memory: MemoryCluster, fault: Fault | None) -> None:
        super().__init__(memory, lambda _: fault if self.gone else None)
        self.fault, self.gone = fault, False

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        if self.gone and self.fault is None:
            await asyncio.Event().wait()
        return await super().get(resource, namespace, name)


@pytest.mark.parametrize("fault", ["lost", "forbidden", None])
async def test_a_leader_that_resigns_needs_no_answer(fault: Fault | None) -> None:
    """A process that is stopped does not wait; the lease runs out by itself."""
    memory, clock = MemoryCluster(), Hands()
    cluster = Gone(memory, fault)
    leader = Leader(cluster, "only", LeaseSettings(namespace="default", margin_seconds=0.05), clock, clock.wall)
    await leader.acquire_or_renew()
    cluster.gone = True
    async with asyncio.timeout(5):
        await leader.resign()
    assert not leads(leader)


async def test_what_is_left_of_the_lease_bounds_what_may_be_sent() -> None:
    memory, clock = MemoryCluster(), Hands()
    leader = candidate(memory, "only", clock)
    assert leader.seconds_left == 0.0
    await leader.acquire_or_renew()
    assert leader.seconds_left == TERMS.deadline_seconds == 12.0
    clock.seconds += 5
    assert leader.seconds_left == 7.0
    clock.seconds += 50
    assert leader.seconds_left == 0.0


async def test_a_leader_that_reads_another_holder_stops_at_once() -> None:
    """The lease was written by hand."""
    memory, clock = MemoryCluster(), Hands()
    leader = candidate(memory, "mine", clock)
    await leader.acquire_or_renew()
    lease = await memory.get(LEASES, "default", "muster")
    await memory.replace(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "another"}})
    await leader.acquire_or_renew()
    assert not leads(leader)


async def test_a_leader_that_loses_its_lease_goes_on_as_a_candidate() -> None:
    """`elected` is called once each term; while the API server does not answer it leads no more, and nothing ends."""
    memory, clock, elected = MemoryCluster(), Hands(), []
    cluster = Gone(memory, "broken")
    terms = LeaseSettings(namespace="default", renew_seconds=0.001)
    leader = Leader(cluster, "only", terms, clock, clock.wall)
    task = asyncio.create_task(leader.run(lambda: elected.append(clock.seconds)))
    async with asyncio.timeout(5):
        while not leads(leader):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        cluster.gone = True
        clock.seconds += 12
        assert not leads(leader)
        await asyncio.sleep(0.02)
        assert not leads(leader)
        cluster.gone = False
        while not leads(leader):
            await asyncio.sleep(0.001)
    assert elected == [100.0, 112.0]
    task.cancel()
    await asyncio.wait([task])


async def test_a_renewal_that_hangs_does_not_cost_the_lease() -> None:
    """It is given up while there is time for another one."""
    memory, clock = MemoryCluster(), Hands()
    cluster = Gone(memory, None)
    terms = LeaseSettings(namespace="default", duration_seconds=0.08, margin_seconds=0.04, renew_seconds=0.001)
    leader = Leader(cluster, "only", terms, clock, clock.wall)
    task = asyncio.create_task(leader.run())
    cluster.gone = True
    await asyncio.sleep(0.05)
    cluster.gone = False
    async with asyncio.timeout(5):
        while not leads(leader):
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])


async def test_of_two_that_are_equally_fast_one_wins() -> None:
    """Optimistic concurrency: both read the same lease, one of the writes is refused."""
    memory, clock = MemoryCluster(), Hands()
    old = candidate(memory, "old", clock)
    await old.acquire_or_renew()
    rivals = [candidate(Faulty(memory), name, clock) for name in ("a", "b")]
    await asyncio.gather(*(rival.acquire_or_renew() for rival in rivals))
    clock.seconds += 15
    await asyncio.gather(*(rival.acquire_or_renew() for rival in rivals), return_exceptions=True)
    assert sum(leads(rival) for rival in rivals) == 1


MOVES = st.lists(
    st.tuples(
        st.integers(0, 2),  # who
        st.floats(0, 9),  # how much later
        st.sampled_from([None, None, None, "conflict", "busy", "lost", "unanswered"]),
        st.sampled_from(["renew", "renew", "renew", "resign"]),
    ),
    max_size=40,
)


@settings(max_examples=100)
@given(MOVES)
def test_there_are_never_two(moves: list[tuple[int, float, Fault | None, str]]) -> None:
    asyncio.run(_never_two(moves))


async def _never_two(moves: list[tuple[int, float, Fault | None, str]]) -> None:
    memory, clock = MemoryCluster(), Hands()
    fault: list[Fault | None] = [None]
    leaders = [candidate(Faulty(memory, lambda _: fault[0]), f"l{i}", clock) for i in range(3)]
    for who, later, fault[0], what in moves:
        clock.seconds += later
        assert sum(leads(leader) for leader in leaders) <= 1
        with suppress(ApiError):
            await (leaders[who].acquire_or_renew() if what == "renew" else leaders[who].resign())
        assert sum(leads(leader) for leader in leaders) <= 1


async def test_what_keeps_it_from_leading_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at every attempt; and again where the reason is another. A rival that was faster is no failure."""
    faults: list[Fault | None] = ["forbidden", "forbidden", "broken", "conflict", None]

    def script(call: Call) -> Fault | None:
        return faults[0] if call.verb == "get" else None

    leader = candidate(Faulty(MemoryCluster(), script), "me", Hands())
    monkeypatch.setattr(leader, "settings", LeaseSettings(namespace="default", renew_seconds=0.0))
    logged = []
    with capture_logs() as lines:
        for fault in list(faults):
            faults[0] = fault
            await leader._try()
            logged.append((len(lines), leader.refused.status if leader.refused else 0))
    assert logged == [(1, 403), (1, 403), (2, 500), (2, 409), (2, 0)]
    assert lines[0]["lease"] == "default/muster"
    assert leads(leader)


async def test_a_lease_that_was_deleted_still_counts_for_its_duration() -> None:
    """I9: its holder does not know yet, and acts."""
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    await memory.delete(LEASES, "default", "muster")
    await second.acquire_or_renew()
    assert (leads(first), leads(second)) == (True, False)
    clock.seconds += TERMS.duration_seconds - 1
    await second.acquire_or_renew()
    assert (leads(first), leads(second)) == (False, False)
    clock.seconds += 1
    await second.acquire_or_renew()
    assert leads(second)


async def test_a_leader_creates_its_deleted_lease_again_at_once() -> None:
    memory, clock = MemoryCluster(), Hands()
    first = candidate(memory, "first", clock)
    await first.acquire_or_renew()
    await memory.delete(LEASES, "default", "muster")
    clock.seconds += 5
    await first.acquire_or_renew()
    assert leads(first)
    assert (await memory.get(LEASES, "default", "muster"))["spec"]["holderIdentity"] == "first"


async def test_a_candidate_that_could_not_lead_does_not_compete() -> None:
    """A replica whose watches are dead knows less than another one; one that leads already keeps the lease."""
    memory, clock, able = MemoryCluster(), Hands(), False
    terms = LeaseSettings(namespace="default", renew_seconds=0.001)
    leader = Leader(memory, "me", terms, clock, clock.wall)
    running = asyncio.create_task(leader.run(able=lambda: able))
    await asyncio.sleep(0.02)
    assert not leads(leader)
    able = True
    await asyncio.sleep(0.02)
    assert leads(leader)
    able = False
    clock.seconds += 10
    await asyncio.sleep(0.02)
    clock.seconds += 10
    await asyncio.sleep(0.02)
    assert leads(leader), "it renews"
    running.cancel()
    await asyncio.wait([running])


async def test_a_lease_lasts_as_long_as_its_holder_says() -> None:
    """I9: while settings are changed, replicas with other ones run side by side."""
    memory, clock = MemoryCluster(), Hands()
    patient = Leader(memory, "patient", LeaseSettings(namespace="default", duration_seconds=60.0), clock, clock.wall)
    hasty = candidate(memory, "hasty", clock)
    await patient.acquire_or_renew()
    await hasty.acquire_or_renew()
    clock.seconds += 50
    await hasty.acquire_or_renew()
    assert (leads(patient), leads(hasty)) == (True, False)
    clock.seconds += 10
    await hasty.acquire_or_renew()
    assert (leads(patient), leads(hasty)) == (False, True)


async def test_a_renewal_that_never_arrived_does_not_prolong_leadership() -> None:
    """I9: no other replica knows of it: the lease runs out as if it had not been requested."""
    memory, clock, lost = MemoryCluster(), Hands(), False

    def script(call: Call) -> Fault | None:
        return "lost" if lost and call.verb == "replace" else None

    first, second = candidate(Faulty(memory, script), "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    lost = True
    for _ in range(3):
        clock.seconds += TERMS.duration_seconds / 3
        with suppress(ApiError):
            await first.acquire_or_renew()
        await second.acquire_or_renew()
        assert not (leads(first) and leads(second))
    assert (leads(first), leads(second)) == (False, True)


async def test_a_lease_that_was_taken_over_and_deleted_is_made_again_at_once() -> None:
    """What was seen of the one before has nothing to do with it."""
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()
    await second.acquire_or_renew()
    clock.seconds += TERMS.duration_seconds
    await second.acquire_or_renew()
    await memory.delete(LEASES, "default", "muster")
    clock.seconds += TERMS.renew_seconds
    await second.acquire_or_renew()
    assert (await memory.get(LEASES, "default", "muster"))["spec"]["holderIdentity"] == "second"


# giving it up ---------------------------------------------------------------------------------------------------------


async def test_a_leader_that_is_stuck_gives_the_lease_up_and_another_takes_it_at_once() -> None:
    """X7: leadership ends first, then the work is given up, then the lease is free."""
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()
    seen = []

    async def abandon(_: LeaderProblem) -> bool:
        lease = await memory.get(LEASES, "default", "muster")
        seen.append((leads(first), lease["spec"]["holderIdentity"]))
        return True

    with capture_logs() as logs:
        await first.step_down(STUCK, abandon)
    assert seen == [(False, "first")], "no more writes, and no other replica writes yet"
    assert [(line["log_level"], line["reason"], line["why"]) for line in logs] == [
        ("error", "CycleStuck", "the cycle makes no progress")
    ]
    await second.acquire_or_renew()
    assert (leads(first), leads(second)) == (False, True)


async def test_a_leader_with_writes_in_flight_lets_the_lease_run_out() -> None:
    """I9: the next leader would meet it."""
    memory, clock = MemoryCluster(), Hands()
    first, second = candidate(memory, "first", clock), candidate(memory, "second", clock)
    await first.acquire_or_renew()

    async def abandon(_: LeaderProblem) -> bool:
        return False

    await first.step_down(STUCK, abandon)
    await second.acquire_or_renew()
    assert (leads(first), leads(second)) == (False, False)
    clock.seconds += 16
    await second.acquire_or_renew()
    assert leads(second)


async def test_a_leader_that_gave_the_lease_up_stands_back_and_competes_again() -> None:
    """Twice the duration: any other replica has it by then; a single one tries again."""
    memory, clock = MemoryCluster(), Hands()
    quick = Leader(memory, "only", LeaseSettings(namespace="default", renew_seconds=0.001), clock, clock.wall)
    problem, began = [], [0]  # type: tuple[list[LeaderProblem], list[int]]

    def elected() -> None:
        began[0] += 1

    election = asyncio.create_task(quick.run(elected, find_problem=lambda: problem[-1] if problem else None))
    try:
        await _until(lambda: quick.leading)
        problem.append(STUCK)
        await _until(lambda: not quick.leading)
        assert quick.cooldown_seconds_left == 30
        clock.seconds += 29
        assert quick.abstention == "was given up: the cycle makes no progress; competes again in 1 s"
        clock.seconds += 2
        await asyncio.sleep(0.05)
        assert not quick.leading, "its problem is not over"
        assert quick.abstention == "is not competed for: the cycle makes no progress"
        problem.clear()
        await _until(lambda: quick.leading)
        assert (began[0], quick.term, quick.cooldown_seconds_left, quick.abstention) == (2, 2, 0, "")
    finally:
        election.cancel()
        await asyncio.wait([election])


async def test_a_lease_that_was_given_up_says_so_by_an_event() -> None:
    """`kubectl describe lease` shows who, and why."""
    memory, clock = MemoryCluster(), Hands()
    leader = candidate(memory, "me", clock)
    await leader.acquire_or_renew()
    await leader.acquire_or_renew()
    await leader.step_down(STUCK)
    (raw,) = (await memory.list(EVENTS, "default")).items
    lease = await memory.get(LEASES, "default", "muster")
    assert raw["involvedObject"]["uid"] == lease["metadata"]["uid"]
    assert (raw["involvedObject"]["kind"], raw["involvedObject"]["name"]) == ("Lease", "muster")
    assert (raw["reason"], raw["type"]) == ("LeaseGivenUp", "Warning")
    assert raw["message"] == "me gave the lease up: the cycle makes no progress"


@pytest.mark.parametrize("fault", ["forbidden", "lost"])
async def test_an_event_that_is_not_taken_keeps_no_lease(fault: Fault) -> None:
    memory, clock = MemoryCluster(), Hands()
    script = Faulty(memory, lambda call: fault if call.what.startswith("events") else None)
    leader = candidate(script, "me", clock)
    await leader.acquire_or_renew()
    await leader.step_down(STUCK)
    assert (await memory.get(LEASES, "default", "muster"))["spec"]["holderIdentity"] == ""


async def test_the_cooldown_doubles_up_to_a_bound_and_begins_again_after_a_long_term() -> None:
    """Where every replica has the problem, each leads less and less often; one that led for long starts from 30 s."""
    memory, clock = MemoryCluster(), Hands()
    leader, cooldowns = candidate(memory, "me", clock), []
    for led_seconds in (20, 20, 20, 20, 20, 20, 301, 20):
        await leader.acquire_or_renew()
        end = clock.seconds + led_seconds
        while clock.seconds < end:
            clock.seconds += 5
            await leader.acquire_or_renew()
        await leader.step_down(STUCK)
        cooldowns.append(leader.cooldown_seconds_left)
        clock.seconds += leader.cooldown_seconds_left
    assert cooldowns == [30, 60, 120, 240, 300, 300, 30, 60]


async def test_replicas_that_all_have_the_problem_take_turns_ever_more_slowly() -> None:
    """No ping-pong: in an hour two replicas that are stuck after 120 s of each term lead a bounded number of times."""
    memory, clock = MemoryCluster(), Hands()
    replicas = [candidate(memory, name, clock) for name in ("a", "b")]
    began: dict[str, float] = {}
    terms = 0
    for _ in range(3600 // 5):
        clock.seconds += 5
        for leader in replicas:
            if leads(leader) and clock.seconds - began[leader.identity] > 120:
                await leader.step_down(STUCK)
            elif leads(leader) or not leader.cooldown_seconds_left:
                was_leading = leads(leader)
                await leader.acquire_or_renew()
                if leads(leader) and not was_leading:
                    began[leader.identity] = clock.seconds
                    terms += 1
    assert 8 <= terms <= 24


async def _until(test: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not test():
            await asyncio.sleep(0.001)
