"""The history checker itself: each promise that a hand-made history breaks is reported, and no other."""

from pathlib import Path
from typing import Any

import pytest

from tests.oracles.history.check import broken, not_at_rest
from tests.oracles.history.records import Raw, RunHistory, SentWrite, StoredChange
from tests.support.factories import node, pod, podgroup, priority_class, queue, topology

GPU = "nvidia.com/gpu"
WHOLE: Raw = {GPU: "4"}  # a node


class Telling:
    """Writes a history, one change a second."""

    def __init__(self, *raws: Raw) -> None:
        self.changes: list[StoredChange] = []
        self.writes: list[SentWrite] = []
        self.objects: dict[tuple[str, str], Raw] = {}
        self.now = 0.0
        self.put(
            *(gpu_node("a"), gpu_node("b"), gpu_node("c", "r2"), topology("topology/zone", "topology/rack")),
            *(priority_class("low", 10), priority_class("high", 90), queue("q", gpu={"quota": -1, "limit": 10})),
            *raws,
        )

    @property
    def history(self) -> RunHistory:
        return RunHistory(tuple(self.changes), tuple(self.writes), self.now)

    def promises(self) -> set[str]:
        """Which promises are reported to be broken."""
        return {text.partition(":")[0] for text in broken(self.history)}

    def put(self, *raws: Raw, is_deleted: bool = False, seconds: float = 1.0) -> None:
        for raw in raws:
            self.now += seconds
            key = raw["kind"], raw["metadata"]["name"]
            stored = {**raw, "metadata": {"uid": f"uid-{key[1]}", **raw["metadata"]}}
            self.objects[key] = stored
            self.changes.append(StoredChange(len(self.changes) + 1, self.now, stored, is_deleted))

    def delete(self, kind: str, name: str) -> None:
        self.put(self.objects[kind, name], is_deleted=True)

    def bind(self, name: str, to: str, replica: str = "one", **answer: Any) -> None:
        """Accepted by the API server, unless the answer says something else."""
        raw = self.objects["Pod", name]
        self.send(replica, name, "binding", {"target": {"name": to}}, **answer)
        self.put(raw | {"spec": {**raw["spec"], "nodeName": to}, "status": {"phase": "Running"}})

    def evict(self, name: str, replica: str = "one") -> None:
        raw = self.objects["Pod", name]
        self.send(replica, name, "eviction", {})
        target = {"type": "DisruptionTarget", "status": "True"}
        meta = {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.put(raw | {"metadata": meta, "status": {**raw["status"], "conditions": [target]}})
        self.delete("Pod", name)

    def send(self, replica: str, name: str, subresource: str, body: Raw, status: int = 201, revision: int = 0) -> None:
        uid = next((raw["metadata"]["uid"] for (_, own), raw in self.objects.items() if own == name), "")
        body = {"metadata": {"name": name, "uid": uid}, **body}
        times: Raw = {"started": self.now, "ended": self.now + 0.5}
        self.writes.append(
            SentWrite(
                replica, "POST", "pods", "team", name, subresource, body, status=status, revision=revision, **times
            )
        )

    def lead(self, replica: str) -> None:
        """The replica gets the lease."""
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "muster", "namespace": "muster-system"},
            "spec": {"holderIdentity": f"host-{replica}"},
        }
        times: Raw = {"started": self.now, "ended": self.now}
        self.writes.append(
            SentWrite(replica, "PUT", "leases", "muster-system", "muster", "", lease, status=200, **times)
        )
        self.put(lease)


def gpu_node(name: str, rack: str = "r1", **spec: Any) -> Raw:
    raw = node(name, allocatable={GPU: "4", "cpu": "64", "pods": "110"}, zone="z", rack=rack)
    return raw | {"spec": spec}


def gang(name: str, need: int = 2, **spec: Any) -> Raw:
    return podgroup(name=name, **{"minMember": need, "queue": "q", **spec})


def pods(name: str, number: int, gpus: int = 2, **more: Any) -> list[Raw]:
    requests: Raw = {GPU: str(gpus), "cpu": "1"}
    return [
        pod(f"{name}-{i}", gang=name, phase="Pending", scheduler="muster", **more, **requests) for i in range(number)
    ]


def running(name: str = "g", need: int = 2, number: int = 2, **spec: Any) -> Telling:
    """A gang that is bound as it should be, on `a` and then `b`."""
    telling = Telling(gang(name, need, **spec), *pods(name, number))
    telling.lead("one")
    for i in range(number):
        telling.bind(f"{name}-{i}", "a" if i < 2 else "b")
    return telling


def test_a_run_as_it_should_be_breaks_nothing() -> None:
    assert broken(running().history) == []


def test_a_history_without_anything_is_reported() -> None:
    """A recorder that recorded nothing proves nothing."""
    assert broken(RunHistory(())) == ["nothing was recorded"]


def test_a_history_is_the_same_after_it_was_saved(tmp_path: Path) -> None:
    history = running().history
    history.save(tmp_path / "history.jsonl")
    assert RunHistory.load(tmp_path / "history.jsonl") == history


# I1 -------------------------------------------------------------------------------------------------------------------


def test_a_pod_that_is_bound_twice_is_reported() -> None:
    telling = running()
    telling.send("one", "g-0", "binding", {"target": {"name": "a"}})
    assert telling.promises() == {"I1"}


def test_a_pod_that_changes_its_node_is_reported() -> None:
    telling = running()
    telling.put(telling.objects["Pod", "g-0"] | {"spec": {**telling.objects["Pod", "g-0"]["spec"], "nodeName": "b"}})
    assert telling.promises() == {"I1"}


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    telling = running()
    telling.delete("Pod", "g-0")
    new = pods("g", 1)[0]
    telling.put(new | {"metadata": {**new["metadata"], "uid": "new"}})
    telling.bind("g-0", "b")
    assert telling.promises() == set()


# I2 -------------------------------------------------------------------------------------------------------------------


def test_a_node_over_its_allocatable_is_reported() -> None:
    telling = running(number=3)
    telling.put(gang("h", 1), *pods("h", 1))
    telling.bind("h-0", "a")
    assert telling.promises() == {"I2"}


@pytest.mark.parametrize("state", [{"terminating": True}, {"scheduler": "other"}, {}])
def test_pods_that_terminate_and_pods_of_other_schedulers_hold_their_node(state: dict[str, Any]) -> None:
    taken = pod("taken", gang="", on="a", phase="Running", **WHOLE, **state)
    telling = Telling(gang("g", 1), *pods("g", 1), taken)
    telling.bind("g-0", "a")
    if state.get("terminating"):
        telling.delete("Pod", "taken")
    assert telling.promises() == {"I2"}


def test_a_pod_that_has_ended_holds_nothing() -> None:
    ended = pod("ended", gang="", on="a", phase="Succeeded", **WHOLE)
    telling = Telling(gang("g", 1), *pods("g", 1), ended)
    telling.bind("g-0", "a")
    assert telling.promises() == set()


# I3 -------------------------------------------------------------------------------------------------------------------


def test_a_gang_that_lacks_pods_and_is_started_is_reported() -> None:
    telling = Telling(gang("g", 3), *pods("g", 2))
    telling.now += 10
    telling.bind("g-0", "a")
    assert "I3" in telling.promises()


def test_a_pod_that_is_lost_while_its_gang_is_bound_is_not_blamed_on_the_binding() -> None:
    """The decision was made when the gang had all its pods; it is complete again soon."""
    telling = Telling(gang("g", 2), *pods("g", 2))
    telling.now += 10
    telling.delete("Pod", "g-1")
    telling.bind("g-0", "a")
    telling.put(*pods("g", 3)[2:])
    telling.bind("g-2", "a")
    assert telling.promises() == set()


def test_a_gang_that_stays_in_part_is_reported_after_its_grace() -> None:
    telling = running(stalenessGracePeriod="3s")
    telling.delete("Pod", "g-1")
    telling.now += 70
    telling.put(*pods("g", 3)[2:])
    telling.bind("g-2", "a")
    assert telling.promises() == {"I3"}


def test_a_gang_that_is_complete_within_its_grace_is_not_reported() -> None:
    telling = running(stalenessGracePeriod="60s")
    telling.delete("Pod", "g-1")
    telling.now += 70
    telling.put(*pods("g", 3)[2:])
    telling.bind("g-2", "a")
    assert telling.promises() == set()


# I4 -------------------------------------------------------------------------------------------------------------------

RACK: Raw = {"topologyConstraint": {"requiredTopologyLevel": "topology/rack"}}


def test_a_late_member_in_another_rack_is_reported() -> None:
    telling = running(number=3, **RACK)
    telling.put(pods("g", 4)[3])
    telling.bind("g-3", "c")
    assert telling.promises() == {"I4"}


def test_pods_on_a_node_that_is_gone_are_in_no_rack() -> None:
    telling = running(need=1, number=2, **RACK)
    telling.delete("Node", "a")
    telling.put(pods("g", 3)[2])
    telling.bind("g-2", "c")
    for i in range(2):
        telling.delete("Pod", f"g-{i}")
    assert telling.promises() == set()


# I5, I6 ---------------------------------------------------------------------------------------------------------------


def preempted(victim: str, is_used: bool = True, **spec: Any) -> Telling:
    """`low` runs with one extra; then a pod of it is evicted, and `high` is bound to its place."""
    telling = running("low", 2, 3, priorityClassName="low", **spec)
    telling.put(gpu_node("b", unschedulable=True), gpu_node("c", "r2", unschedulable=True))
    telling.put(gang("high", 1, priorityClassName="high"), *pods("high", 1))
    telling.now += 10
    telling.evict(victim)
    if is_used:
        telling.bind("high-0", "a" if victim != "low-2" else "b")
    return telling


def test_a_core_that_is_protected_and_evicted_is_reported() -> None:
    assert preempted("low-0", preemptibility="semi-preemptible").promises() == {"I5"}


def test_a_pod_beyond_the_core_may_be_evicted() -> None:
    assert preempted("low-2", preemptibility="semi-preemptible").promises() == set()


def test_a_pod_of_a_gang_that_is_not_preemptible_is_never_evicted() -> None:
    assert preempted("low-2", preemptibility="non-preemptible").promises() == {"I5"}


def test_an_eviction_after_which_nothing_is_bound_is_reported() -> None:
    """The gang that waits could be bound then, and is not: it does not converge either."""
    telling = preempted("low-2", is_used=False)
    telling.put(gpu_node("b"))
    assert "I6" in telling.promises()


def test_an_eviction_without_any_gang_that_waits_is_reported() -> None:
    telling = running("low", 2, 3)
    telling.evict("low-2")
    assert telling.promises() == {"I6"}


def test_the_gang_that_an_eviction_was_for_may_be_deleted() -> None:
    telling = preempted("low-2", is_used=False)
    telling.delete("Pod", "high-0")
    telling.delete("PodGroup", "high")
    assert telling.promises() == set()


def test_a_gang_in_part_is_released_after_its_grace() -> None:
    """S2: no gang waits for it, and a protected core is none any more."""
    telling = running(stalenessGracePeriod="3s", preemptibility="semi-preemptible")
    telling.delete("Pod", "g-1")
    telling.now += 5
    telling.evict("g-0")
    assert telling.promises() == set()


def test_a_gang_that_is_released_before_its_grace_is_reported() -> None:
    telling = running(stalenessGracePeriod="30s")
    telling.delete("Pod", "g-1")
    telling.now += 5
    telling.evict("g-0")
    assert telling.promises() == {"I6"}


# I7 -------------------------------------------------------------------------------------------------------------------


def test_a_queue_over_its_limit_is_reported() -> None:
    telling = running(number=4)
    telling.put(gang("h", 2), *pods("h", 2))
    telling.bind("h-0", "c")
    assert telling.promises() == {"I8"}, "10 of 10 GPUs, and `h` rests in part"
    telling.bind("h-1", "c")
    assert telling.promises() == {"I7"}


# I8, I11 --------------------------------------------------------------------------------------------------------------


def test_a_gang_that_fits_and_waits_is_reported() -> None:
    telling = Telling(gang("g"), *pods("g", 2))
    assert telling.promises() == {"I8"}
    assert not_at_rest(telling.history) == ["I8: team/g fits on what is free, and does not run"]


def test_a_gang_that_does_not_fit_may_wait() -> None:
    assert Telling(gang("g", 2, **RACK), *pods("g", 2, gpus=5)).promises() == set()


def test_a_gang_that_its_queue_does_not_allow_may_wait() -> None:
    assert Telling(gang("g", 3), *pods("g", 3, gpus=4)).promises() == set()


def test_a_gang_that_rests_in_part_is_reported() -> None:
    telling = Telling(gang("g", 2), *pods("g", 1, gpus=2), *pods("g", 2, gpus=5)[1:])
    telling.bind("g-0", "a")
    assert telling.promises() == {"I8"}


def test_an_extra_that_fits_and_waits_is_reported() -> None:
    telling = running()
    telling.put(pods("g", 3)[2])
    assert telling.promises() == {"I8"}


def test_a_pod_that_never_stops_to_terminate_is_reported() -> None:
    telling = running(number=3)
    raw = telling.objects["Pod", "g-2"]
    telling.put(raw | {"metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert telling.promises() == {"I8"}


def test_the_gang_of_highest_priority_that_could_preempt_and_waits_is_reported() -> None:
    telling = running("low", 2, 4, priorityClassName="low")
    telling.put(gpu_node("c", "r2", unschedulable=True))
    telling.put(gang("high", 2, priorityClassName="high"), *pods("high", 2))
    assert telling.promises() == {"I11"}


def test_a_gang_that_could_only_take_from_a_protected_core_may_wait() -> None:
    telling = running("low", 4, 4, priorityClassName="low", preemptibility="semi-preemptible")
    telling.put(gpu_node("c", "r2", unschedulable=True))
    telling.put(gang("high", 2, priorityClassName="high"), *pods("high", 2))
    assert telling.promises() == set()


# I9 -------------------------------------------------------------------------------------------------------------------


def test_a_binding_of_a_stale_leader_is_reported() -> None:
    telling = Telling(gang("g"), *pods("g", 2))
    telling.lead("one")
    telling.bind("g-0", "a")
    telling.lead("two")
    telling.bind("g-1", "a", replica="one")
    assert telling.promises() == {"I9"}


def test_a_binding_of_the_new_leader_is_right_even_if_the_old_one_tried_too() -> None:
    """The old one's request was refused, or it cannot be told which of two was applied."""
    for status in (409, 0):
        telling = Telling(gang("g"), *pods("g", 2))
        telling.lead("one")
        telling.bind("g-0", "a")
        telling.lead("two")
        telling.send("one", "g-1", "binding", {"target": {"name": "a"}}, status=status)
        telling.bind("g-1", "a", replica="two")
        assert telling.promises() == set()


def test_an_eviction_of_a_stale_leader_is_reported() -> None:
    telling = running("low", 2, 3, priorityClassName="low")
    telling.put(gpu_node("b", unschedulable=True), gpu_node("c", "r2", unschedulable=True))
    telling.put(gang("high", 1, priorityClassName="high"), *pods("high", 1))
    telling.lead("two")
    telling.evict("low-2", replica="one")
    telling.bind("high-0", "b", replica="two")
    assert telling.promises() == {"I9"}


def test_a_status_of_a_stale_leader_is_reported() -> None:
    telling = running()
    telling.lead("two")
    telling.send("one", "g", "status", {}, status=200, revision=len(telling.changes) + 1)
    telling.put(telling.objects["PodGroup", "g"] | {"status": {"phase": "Running"}})
    assert telling.promises() == {"I9"}


def test_a_patch_without_effect_is_no_write() -> None:
    """It is answered with the revision of an older one, of another term."""
    telling = running()
    telling.lead("two")
    telling.put(telling.objects["PodGroup", "g"] | {"status": {"phase": "Running"}})
    last = len(telling.changes)
    telling.lead("one")
    telling.send("one", "g", "status", {}, status=200, revision=last)
    assert telling.promises() == set()
