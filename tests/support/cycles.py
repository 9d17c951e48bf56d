"""Plan, apply, plan: a small cluster of manifests over several cycles, with everything around a scheduler.

Bindings happen at once, evicted pods terminate until `leave`, then their controllers make new pods under other names.
What plans remember stands on the objects alone: nominated nodes on pods, annotations on PodGroups.
"""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import muster
from muster.reporting.annotations import stale_annotations
from muster.reporting.outcome import outcomes
from tests.oracles.objects import key_of, name, owner, terminating

Raw = dict[str, Any]


class Cluster:
    """Objects, a clock, and the last plan."""

    def __init__(self, *objects: Raw, **policy: Any) -> None:
        self.objects: list[Raw] = copy.deepcopy(list(objects))
        self.policy = muster.Policy(**policy)
        self.now = datetime(2026, 6, 1, 12, tzinfo=UTC)
        self.plan: Raw = {}
        self._made = 0

    def cycle(self, seconds: int = 1) -> Raw:
        """A plan is made and carried out, some seconds after the last one."""
        self.now += timedelta(seconds=seconds)
        made = muster.plan(muster.objects(self.objects), self.policy, self.now)
        self.plan = made.to_dict()
        annotations = {
            key: stale_annotations(outcome, outcome.before.source, self.now)
            for key, outcome in outcomes(made.snapshot, made.decided).items()
        }
        self._apply(annotations)
        return self.plan

    def _apply(self, annotations: dict[str, dict[str, str | None]]) -> None:
        bound = {key_of(one): one["node"] for one in self.plan["bindings"]}
        nominated = {key_of(one): one["node"] for one in self.plan["nominations"]}
        evicted = {key_of(one) for one in self.plan["evictions"]}
        for raw in self.of("Pod"):
            raw.setdefault("status", {}).pop("nominatedNodeName", None)
            if name(raw) in bound:
                raw["spec"]["nodeName"], raw["status"]["phase"] = bound[name(raw)], "Running"
            if name(raw) in nominated:
                raw["status"]["nominatedNodeName"] = nominated[name(raw)]
            if name(raw) in evicted:
                raw["metadata"]["deletionTimestamp"] = self.stamp()
        for raw in self.of("PodGroup"):
            notes = raw["metadata"].get("annotations", {}) | annotations.get(name(raw), {})
            raw["metadata"]["annotations"] = {note: text for note, text in notes.items() if text is not None}

    def leave(self, again: bool = True) -> None:
        """Terminating pods are gone; their controllers make new ones under other names."""
        for raw in [pod for pod in self.of("Pod") if terminating(pod)]:
            self.objects.remove(raw)
            if again:
                self.add(self._replacement(raw))

    def _replacement(self, old: Raw) -> Raw:
        self._made += 1
        new = copy.deepcopy(old)
        new["metadata"] |= {"name": f"{old['metadata']['name']}-again{self._made}", "creationTimestamp": self.stamp()}
        del new["metadata"]["deletionTimestamp"], new["spec"]["nodeName"]
        return new | {"status": {}}

    def add(self, *objects: Raw) -> None:
        self.objects += copy.deepcopy(list(objects))

    def of(self, kind: str) -> list[Raw]:
        return [raw for raw in self.objects if raw["kind"] == kind]

    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def placed(self, gang: str) -> dict[str, str]:
        """The pods of a gang that are on nodes and stay."""
        mine = [pod for pod in self.of("Pod") if owner(pod) == gang and not terminating(pod)]
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in mine if pod["spec"].get("nodeName")}

    def holding(self, queue: str) -> int:
        """Pods of a queue that are on nodes, terminating ones too."""
        gangs = {name(raw) for raw in self.of("PodGroup") if raw["spec"].get("queue") == queue}
        return sum(owner(pod) in gangs and bool(pod["spec"].get("nodeName")) for pod in self.of("Pod"))

    def verdict(self, gang: str) -> Raw:
        """What the last plan says about a gang."""
        groups: list[Raw] = self.plan["podGroups"]
        return next(one for one in groups if f"{one['namespace']}/{one['name']}" == gang)
