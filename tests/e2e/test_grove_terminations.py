"""Gang termination on a live cluster under faults: a crash at every call, and seeded trouble (I8).

The clock of the cluster stands still and that of the operator does not: cliques that were recreated look as old as the
others.
"""

from itertools import count

import pytest

from muster.api import names
from muster.api.resources import POD_CLIQUE_SETS, POD_CLIQUES, PODS
from muster.kube.cluster import Raw
from tests.e2e.test_grove_faults import SCENARIOS, SEEDS, Story, a_set, lasting, quick
from tests.support.live.faults import Script, crash_at, seeded

__all__ = ["quick"]  # a fixture
EVERYTHING = ["w-0-a", "w-0-sg-0-b", "w-0-sg-1-b"]


class TerminationStory(Story):
    """Once the set runs, all pods of a clique stop being ready, and the delay is over at once."""

    def __init__(self, clique_name: str) -> None:
        super().__init__("terminate")
        self.clique_name, self.before = clique_name, dict[str, str]()

    def cliques(self) -> dict[str, str]:
        """The uids of cliques by name."""
        return {
            raw["metadata"]["name"]: raw["metadata"]["uid"] for raw in self.world.memory.store.list(POD_CLIQUES).items
        }

    def breach(self) -> None:
        self.before = self.cliques()
        template = {**a_set()["spec"]["template"], "terminationDelay": "1ms"}
        self.patch(POD_CLIQUE_SETS, "w", {"template": template})
        for pod in self.world.memory.store.list(PODS).items:
            if pod["metadata"]["labels"][names.POD_CLIQUE] == self.clique_name:
                self.world.memory.store.replace(PODS, {**pod, "status": broken(pod["status"])}, "status")

    def problems(self) -> list[str]:
        """Promises that were broken, but for what the test did; and pods that do not run in the end."""
        waiting = [str(place) for place in self.end()["pods"] if place[4:] != ("", "True")]
        return [line for line in self.wrong() if not line.endswith("fell below its minimum")] + waiting

    def recreated(self) -> list[str]:
        return sorted(name for name, uid in self.cliques().items() if self.before[name] != uid)


def broken(status: Raw) -> Raw:
    """A pod that runs, whose container started and is not ready."""
    container = {"name": "main", "image": "image", "imageID": "", "restartCount": 1, "started": True, "ready": False}
    ready = {"type": "Ready", "status": "False"}
    conditions = [{**one, **ready} if one["type"] == "Ready" else one for one in status["conditions"]]
    return {**status, "conditions": conditions, "containerStatuses": [container]}


async def terminated(clique_name: str, *scripts: Script) -> TerminationStory:
    story = TerminationStory(clique_name)
    await story.run(*scripts)
    return story


@pytest.fixture(autouse=True)
def breaching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCENARIOS, "terminate", TerminationStory.breach)


@pytest.mark.parametrize(("clique_name", "replica"), [("w-0-a", EVERYTHING), ("w-0-sg-0-b", ["w-0-sg-0-b"])])
async def test_a_termination_with_a_crash_at_any_call_recreates_the_whole_replica(
    clique_name: str, replica: list[str]
) -> None:
    for number in count(1):
        story = await terminated(clique_name, crash_at(number))
        where = f"crash at call {number}: {' '.join(story.log[number : number + 1])}"
        assert story.recreated() == replica, where
        assert story.problems() == [], where
        if story.starts == 1:
            break  # it ended well before so many calls
    assert number > 20


async def test_any_trouble_in_a_termination_is_overcome() -> None:
    """Conflicts, 429, 500, lost calls and answers, crashes, and events late, twice or cut off."""
    for seed in range(SEEDS):
        story = await terminated("w-0-a", seeded(2 * seed), lasting(2 * seed + 1))
        assert story.recreated() == EVERYTHING, f"seed {seed}"
        assert story.problems() == [], f"seed {seed}"
