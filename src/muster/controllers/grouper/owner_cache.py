"""A shared cache of owners, of the kinds that pods ask for: one watch a kind, not one read a pod.

Rule 1: nothing is read that is not listed. Rule 2: a watch may be behind: before an owner counts as missing, or as
another one than was meant, it is read once. Rule 3: every wait ends, with an answer or with a reason.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping

from muster.api.meta import OwnerReference
from muster.api.resources import PODS, Resource
from muster.controllers.grouper.owner_watch import FORBIDDEN, NO_SUCH_KIND, OwnerWatch
from muster.grouping.owner_reader import read_owner
from muster.grouping.owners import Missing
from muster.grouping.types import Owner
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError
from muster.kube.work_queue import WorkQueue

READ_SECONDS = 10.0  # one read of an owner
DOUBTED_SECONDS = 30.0  # how long a read that found nothing, or another uid, is not repeated
READERS = 8  # reads at once
BAD_NAME = 400  # no object has such a name, like `..`
MOST_ANSWERS = 20_000  # reads that are remembered
MOST_UNSERVED = 4  # versions of one kind that the cluster does not serve, and that are waited for
Key = tuple[Resource, str, str, str]  # kind, namespace, name, and the uid that was meant


class OwnerCache:
    """Looks owners up, and says what to look at again when an owner changes."""

    def __init__(
        self,
        cluster: Cluster,
        listed: Collection[str],
        plurals: Mapping[tuple[str, str], str],
        clock: Callable[[], float],
        changed: Callable[[str], None] = lambda _: None,
        retry: Callable[[Resource], None] = lambda _: None,
        pod: Callable[[str, str], Owner | None] = lambda *_: None,
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._listed = frozenset(listed)  # `plural.group`: what may be read
        self._plurals = plurals  # by API group and kind
        self._changed = changed  # called with the uid of an owner that changed
        self._retry = retry  # called with a kind whose lookups may have another answer now
        self._pod = pod  # a pod of ours by namespace and name: some owners are pods
        self.watches: dict[Resource, OwnerWatch] = {}
        self._unstarted: list[OwnerWatch] = []
        self._tasks: dict[Resource, asyncio.Task[None]] = {}  # of watches
        self._unserved: dict[tuple[str, str], dict[Resource, None]] = {}  # by group and kind, the oldest first
        self._dropped: dict[Resource, float] = {}  # watches that ended as nothing serves their kind, and when
        self._woken = asyncio.Event()
        self._reads: WorkQueue[Key] = WorkQueue()
        self._answers: dict[Key, tuple[Owner | Missing, float]] = {}  # of reads, and when

    def lookup(self, reference: OwnerReference, namespace: str) -> Owner | Missing:
        """The owner that a reference names; `Unsynced`: `changed` or `retry` is called once there is an answer."""
        if (reference.api_version, reference.kind) == (PODS.api_version, PODS.kind):
            return self._pod(namespace, reference.name) or self._read_answer(PODS, reference, namespace)
        resource = self._resource(reference)
        if resource is None:
            return "Unlisted"
        if self._clock() - self._dropped.get(resource, -DOUBTED_SECONDS) < DOUBTED_SECONDS:
            return "NoSuchKind"
        owner = self._watch(resource).find(reference, namespace)
        is_doubtful = owner == "NotFound" or (isinstance(owner, Owner) and owner.metadata.uid != reference.uid)
        if is_doubtful:
            return self._read_answer(resource, reference, namespace)
        self._answers.pop((resource, namespace, reference.name, reference.uid), None)  # the watch knows better now
        return owner

    def _resource(self, reference: OwnerReference) -> Resource | None:
        """The kind of an owner; None: it may not be read."""
        group, _, version = reference.api_version.rpartition("/")
        plural = self._plurals.get((group, reference.kind), "")
        is_listed = f"{plural}.{group}".rstrip(".") in self._listed
        return Resource(group, version, plural, reference.kind) if plural and is_listed else None

    def _watch(self, resource: Resource) -> OwnerWatch:
        if resource not in self.watches:
            watch = OwnerWatch(self._cluster, resource, self._changed, self._listed_or_not, self._clock)
            self.watches[resource] = watch
            self._unstarted.append(watch)
            self._woken.set()
        return self.watches[resource]

    def _listed_or_not(self, resource: Resource) -> None:
        """A kind was listed, or cannot be. Pods may name any version of a kind: a few that do not exist are watched."""
        watch = self.watches.get(resource)
        if watch is None:
            return
        unserved = self._unserved.setdefault((resource.group, resource.kind), {})
        if watch.is_unserved:
            unserved.setdefault(resource)
        else:
            unserved.pop(resource, None)
        while len(unserved) > MOST_UNSERVED:
            self._drop_watch(next(iter(unserved)), unserved)
        self._retry(resource)

    def _drop_watch(self, resource: Resource, unserved: dict[Resource, None]) -> None:
        """End a watch; the next pod that names the version after a while begins another one."""
        del unserved[resource], self.watches[resource]
        self._tasks.pop(resource).cancel()
        if len(self._dropped) >= MOST_ANSWERS:
            self._dropped.pop(next(iter(self._dropped)))
        self._dropped.pop(resource, None)
        self._dropped[resource] = self._clock()

    def _read_answer(self, resource: Resource, reference: OwnerReference, namespace: str) -> Owner | Missing:
        """What a read of the object found; `Unsynced` while it is being read. Only a good answer lasts."""
        key = (resource, namespace, reference.name, reference.uid)
        answer, read_at = self._answers.get(key, ("Unsynced", -DOUBTED_SECONDS))
        is_good = isinstance(answer, Owner) and answer.metadata.uid == reference.uid
        if is_good or (answer != "Unsynced" and self._clock() - read_at < DOUBTED_SECONDS):
            return answer
        self._reads.add(key)
        return "Unsynced"

    def problem_of(self, kind: str) -> str:
        """Why owners of a kind, `apiVersion kind`, cannot be read."""
        for resource, watch in self.watches.items():
            if f"{resource.api_version} {resource.kind}" == kind and watch.health.error is not None:
                return watch.health.error.message
        return "the API server does not answer"

    async def run(self) -> None:
        """Runs the watches, and reads owners that a watch does not have, without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reads.run(self._read, READERS), name="owner reads")
            while True:
                for watch in self._unstarted:
                    task = tasks.create_task(watch.run(), name=f"owners {watch.resource.plural}")
                    self._tasks[watch.resource] = task
                self._unstarted.clear()
                await self._woken.wait()
                self._woken.clear()

    async def _read(self, key: Key) -> bool:
        """Whether there is an answer; otherwise the work queue tries again."""
        resource, namespace, name, uid = key
        try:
            async with asyncio.timeout(READ_SECONDS):
                raw = await self._cluster.get(resource, namespace, name)
        except TimeoutError:
            return False
        except ApiError as error:
            if error.status not in (BAD_NAME, *FORBIDDEN, *NO_SUCH_KIND):
                return False
            self._answer(key, "Forbidden" if error.status in FORBIDDEN else "NotFound")
        else:
            self._answer(key, read_owner({"apiVersion": resource.api_version, "kind": resource.kind, **raw}))
        self._changed(uid)
        return True

    def _answer(self, key: Key, answer: Owner | Missing) -> None:
        if len(self._answers) >= MOST_ANSWERS:
            self._answers.pop(next(iter(self._answers)))
        self._answers[key] = answer, self._clock()
