"""Marks that pods get with their bindings: where the API server takes them along, and only until the pod is bound."""

from muster.api.core import Pod
from muster.config.settings import Scheduling
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cache.reflector import ObjectUpdated
from muster.kube.errors import ApiError
from muster.kube.pod_mark import PodMark
from muster.scheduler.loop import Scheduler
from muster.scheduler.marked_bindings import RETRY_SECONDS, MarkedBindings

MARK = PodMark({"pod-group-name": "g"}, {"kai.scheduler/subgroup-name": "leaf"})
REMOVAL = PodMark({"pod-group-name": "g"}, {"kai.scheduler/subgroup-name": None})
NAME = "default/p"


class VersionedCluster(MemoryCluster):
    """One that may be old, or may not say what it is."""

    def __init__(self, *answers: bool | ApiError) -> None:
        super().__init__()
        self.answers = [*answers]

    async def binds_with_labels(self) -> bool:
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


class MarkScene:
    """One pod that waits, and a clock."""

    def __init__(self, *answers: bool | ApiError) -> None:
        self.now = 0.0
        self.cluster = VersionedCluster(*answers)
        self.watched = Scheduler(self.cluster, Scheduling()).watched
        self.bindings = MarkedBindings(self.cluster, self.watched, lambda: False, lambda: self.now)
        self.see_pod()

    def see_pod(self, uid: str = "1", node: str = "") -> None:
        meta = {"name": "p", "namespace": "default", "uid": uid}
        self.watched.cache.handle(Pod, ObjectUpdated({"metadata": meta, "spec": {"nodeName": node}}))

    @property
    def gang(self) -> str | None:
        pod = self.watched.cache.pod(NAME)
        return pod.metadata.annotations.get("pod-group-name") if pod else None


async def test_an_offered_mark_is_known_at_once_and_new_once() -> None:
    scene = MarkScene(True)
    assert await scene.bindings.detect()
    assert scene.bindings.offer(NAME, "1", MARK)
    assert not scene.bindings.offer(NAME, "1", MARK)
    assert scene.gang == "g"
    assert scene.bindings.may_carry(NAME, "1")


async def test_old_api_servers_get_a_write_for_each_pod() -> None:
    """They would bind the pod, and drop its label."""
    scene = MarkScene(False)
    assert not await scene.bindings.detect()
    assert not scene.bindings.offer(NAME, "1", MARK)
    assert scene.gang is None
    assert not scene.bindings.may_carry(NAME, "1")


async def test_a_version_that_cannot_be_read_is_requested_again_after_a_while() -> None:
    scene = MarkScene(ApiError(503, "ServiceUnavailable", "busy"), True)
    assert not await scene.bindings.detect()
    assert not await scene.bindings.detect(), "not at once"
    scene.now = RETRY_SECONDS
    assert await scene.bindings.detect()
    assert await scene.bindings.detect(), "and then it is known"


async def test_a_binding_removes_no_label() -> None:
    scene = MarkScene(True)
    await scene.bindings.detect()
    assert not scene.bindings.offer(NAME, "1", REMOVAL)
    assert scene.gang is None


async def test_a_bound_pod_waits_for_no_binding() -> None:
    scene = MarkScene(True)
    await scene.bindings.detect()
    scene.bindings.offer(NAME, "1", MARK)
    scene.see_pod(node="a")
    assert not scene.bindings.may_carry(NAME, "1")


async def test_another_pod_of_that_name_has_no_part_in_it() -> None:
    scene = MarkScene(True)
    await scene.bindings.detect()
    scene.bindings.offer(NAME, "1", MARK)
    scene.see_pod(uid="2")
    assert scene.gang is None
    assert not scene.bindings.may_carry(NAME, "1")
    assert not scene.bindings.may_carry(NAME, "2")
    assert scene.bindings.offer(NAME, "2", MARK)


async def test_a_withdrawn_mark_is_gone() -> None:
    scene = MarkScene(True)
    await scene.bindings.detect()
    scene.bindings.offer(NAME, "1", MARK)
    scene.bindings.offer(NAME, "1", None)
    assert scene.gang is None
    assert not scene.bindings.may_carry(NAME, "1")
