"""CRDs of an earlier version, of this one, and of the earlier one again: what is stored stays.

`earlier/` holds the first CRDs that were ever deployed. An API server of its own: others need the CRDs.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError

import msgspec
import pytest
import yaml

from muster.api.resources import (
    CLUSTER_TOPOLOGY_BINDINGS,
    POD_CLIQUE_SCALING_GROUPS,
    POD_CLIQUE_SETS,
    POD_CLIQUES,
    POD_GANGS,
    Resource,
)
from muster.kube.cluster import Raw
from muster.validation.crds import grove_crds, own_crds
from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import ApiServer, started
from tests.support.grove import GroveCluster, clique, group, pod_clique_set

EARLIER = Path(__file__).parent / "earlier"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONDITION = {
    "type": "Scheduled",
    "status": "True",
    "reason": "Placed",
    "message": "3 of 4",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
SPEC = {
    "queue": "team-a",
    "priorityClassName": "train",
    "preemptibility": "semi-preemptible",
    "minSubGroup": 2,
    "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"},
    "stalenessGracePeriod": "90s",
    "markUnschedulable": False,
    "schedulingBackoff": 1,
    "subGroups": [
        {"name": "prefill", "minSubGroup": 1, "topologyConstraint": {"requiredTopologyLevel": "block"}},
        {"name": "prefill-0", "parent": "prefill", "minMember": 3},
        {"name": "decode", "minMember": 1},
    ],
}
META = {
    "labels": {"kai.scheduler/queue": "team-a"},
    "annotations": {"kai.scheduler/stale-podgroup-timestamp": "2026-01-01T00:00:00Z", "muster.dev/moved-to": "[]"},
}
LEVEL = {"name": "", "satisfied": True, "placed": 4, "pending": 0, "domain": "z1"}
BOTH = {  # the part of a status that both versions know
    "phase": "Running",
    "satisfied": True,
    "running": 4,
    "resourcesStatus": {"requested": {"cpu": "4"}},
    "levels": [LEVEL],
    "conditions": [CONDITION],
}
OTHERS = {
    QUEUES: {"parentQueue": "", "priority": 7, "resources": {"cpu": {"quota": 4000, "limit": -1}}},
    TOPOLOGIES: {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "topology/rack"}]},
}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    programs = envtest.find_programs()
    if programs is None:
        pytest.skip(envtest.HOW_TO_GET_THEM)
    running = started(programs, definitions=[*earlier("10-crds"), *earlier("15-grove-crds")])
    yield running
    running.stop()
    running.clean(keep_logs=False)


def earlier(name: str) -> list[Raw]:
    return list(yaml.safe_load_all((EARLIER / f"{name}.yaml").read_text(encoding="utf-8")))


def ask(server: ApiServer, path: str, raw: Raw | None = None, method: str = "GET", media: str = "json") -> Raw:
    body = None if raw is None else msgspec.json.encode(raw)
    try:
        answer: Raw = msgspec.json.decode(server.request(path, body, method, f"application/{media}"))
    except HTTPError as error:
        error.add_note(error.read().decode())
        raise
    return answer


def install(server: ApiServer, definitions: list[Raw], path: str, probe: Raw, *, accepts: bool) -> None:
    """As `kubectl replace` does, until the API server validates by them: `probe` tells the two versions apart."""
    for crd in definitions:
        at = f"{DEFINITIONS}/{crd['metadata']['name']}"
        present = ask(server, at)
        ask(server, at, present | {"spec": crd["spec"]}, "PUT")
    until(lambda: _accepts(server, path, probe) == accepts)


def _accepts(server: ApiServer, path: str, raw: Raw) -> bool:
    try:
        ask(server, f"{path}?dryRun=All", raw, "POST")
    except HTTPError as error:
        error.close()
        return False
    return True


def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("the API server does not take the CRDs over")


def stored(name: str, spec: Raw) -> Raw:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", **META},
        "spec": spec,
    }


# only the newer CRDs take a 0 beside the other minimum (V1)
ZERO = (GROUPS, stored("probe", {"minMember": 0, "minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 1}]}))


def write_status(server: ApiServer, name: str, status: Raw) -> None:
    ask(server, f"{GROUPS}/{name}/status", {"status": status}, "PATCH", "merge-patch+json")


def parts(raw: Raw) -> Raw:
    meta = raw["metadata"]
    return {"spec": raw["spec"], **{field: meta[field] for field in META}}


def kept(raw: Raw) -> Raw:
    """The part of its status that both versions know."""
    status = raw["status"]
    level = {field: value for field, value in status["levels"][0].items() if field in LEVEL}
    return {field: value for field, value in status.items() if field in BOTH} | {"levels": [level]}


def test_what_is_stored_survives_an_upgrade_and_a_downgrade(server: ApiServer) -> None:
    ask(server, GROUPS, stored("old", SPEC), "POST")
    write_status(server, "old", {**BOTH, "levels": [{**LEVEL, "minimum": 2}]})
    for path, spec in OTHERS.items():
        group, version = path.split("/")[2:4]
        kind = "Queue" if path == QUEUES else "Topology"
        ask(
            server,
            path,
            {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": spec},
            "POST",
        )
    others = {path: ask(server, f"{path}/x")["spec"] for path in OTHERS}

    install(server, own_crds(), *ZERO, accepts=True)
    upgraded = ask(server, f"{GROUPS}/old")
    assert parts(upgraded) == {"spec": SPEC, **META}
    assert kept(upgraded) == BOTH
    assert {path: ask(server, f"{path}/x")["spec"] for path in OTHERS} == others
    changed = ask(server, f"{GROUPS}/old", {"spec": {"queue": "team-b"}}, "PATCH", "merge-patch+json")
    assert parts(changed) == {"spec": SPEC | {"queue": "team-b"}, **META}, "and it can be changed"

    ask(server, GROUPS, stored("new", SPEC), "POST")
    write_status(server, "new", {**BOTH, "leftovers": 1, "levels": [{**LEVEL, "minSubGroup": 2, "gated": 1}]})
    newer = ask(server, f"{GROUPS}/new")
    assert newer["status"]["leftovers"] == 1

    install(server, earlier("10-crds"), *ZERO, accepts=False)
    for name, spec in (("old", SPEC | {"queue": "team-b"}), ("new", SPEC)):
        downgraded = ask(server, f"{GROUPS}/{name}")
        assert parts(downgraded) == {"spec": spec, **META}
        assert kept(downgraded) == BOTH
    assert "leftovers" not in ask(server, f"{GROUPS}/new")["status"], "hidden, as the older CRDs do not know it"
    assert {path: ask(server, f"{path}/x")["spec"] for path in OTHERS} == others

    install(server, own_crds(), *ZERO, accepts=True)
    assert ask(server, f"{GROUPS}/new") == newer, "nobody wrote it meanwhile, so that nothing is lost"


# Grove's kinds --------------------------------------------------------------------------------------------------------

OLDER_FORM: Raw = {"topologyConstraint": {"topologyName": "dc", "packDomain": "rack"}}
SETS = f"/apis/{POD_CLIQUE_SETS.api_version}/namespaces/default/podcliquesets"
# only the newer CRDs take the older form of a constraint (R5)
PACKED = (SETS, pod_clique_set(clique("a"), name="probe", metadata={"namespace": "default"}, **OLDER_FORM))
HUGE = 6_000  # replicas: more than the newer CRDs take (R4)
BINDING: Raw = {
    "apiVersion": CLUSTER_TOPOLOGY_BINDINGS.api_version,
    "kind": CLUSTER_TOPOLOGY_BINDINGS.kind,
    "metadata": {"name": "dc"},
    "spec": {"levels": [{"domain": "zone", "key": "topology/zone"}, {"domain": "rack", "key": "topology/rack"}]},
    "status": {"observedGeneration": 1, "conditions": [CONDITION]},
}
GROVE_KINDS = (POD_CLIQUE_SETS, POD_CLIQUES, POD_CLIQUE_SCALING_GROUPS, POD_GANGS)
Stored = dict[str, Raw]  # by path


def grove_objects() -> Stored:
    """One of each kind and more, with the status that the operator gives them."""
    grove = GroveCluster()
    grove.apply(pod_clique_set(clique("a", 2, 1), clique("b", 3, 2), groups=[group("g", "b", replicas=2)], replicas=2))
    objects = {f"{collection(resource)}/{name}": raw for resource, name, raw in named(grove)}
    return objects | {f"{collection(CLUSTER_TOPOLOGY_BINDINGS)}/dc": BINDING}


def named(grove: GroveCluster) -> Iterator[tuple[Resource, str, Raw]]:
    for resource in GROVE_KINDS:
        for name in grove.names(resource):
            raw = grove.named(resource, name)
            meta = {"name": name, "namespace": "default", "labels": raw["metadata"].get("labels", {})}
            yield resource, name, {**raw, "metadata": meta}


def collection(resource: Resource) -> str:
    space = "/namespaces/default" if resource.namespaced else ""
    return f"/apis/{resource.api_version}{space}/{resource.plural}"


def create(server: ApiServer, path: str, raw: Raw) -> None:
    ask(server, path.rpartition("/")[0], raw, "POST")
    if "status" in raw:
        ask(server, f"{path}/status", {"status": raw["status"]}, "PATCH", "merge-patch+json")


def content(server: ApiServer, paths: Stored) -> Stored:
    """Everything but what an API server notes about writes."""
    present = {path: ask(server, path) for path in paths}
    return {path: {field: raw.get(field) for field in ("spec", "status")} for path, raw in present.items()}


def test_objects_of_grove_survive_an_upgrade_and_a_downgrade(server: ApiServer) -> None:
    """Also those that only one of the versions would create: a set that is too large now, a constraint in two forms."""
    objects = grove_objects()
    assert {path.split("/")[-2] for path in objects} == {crd["spec"]["names"]["plural"] for crd in grove_crds()}
    for path, raw in objects.items():
        create(server, path, raw)
    huge = f"{SETS}/huge"
    create(server, huge, pod_clique_set(clique("a"), name="huge", replicas=HUGE, metadata={"namespace": "default"}))
    before = content(server, objects)
    assert all(raw["spec"] for raw in before.values())

    install(server, grove_crds(), *PACKED, accepts=True)
    assert content(server, objects) == before
    relabelled = ask(server, huge, {"metadata": {"labels": {"a": "b"}}}, "PATCH", "merge-patch+json")
    assert relabelled["spec"]["replicas"] == HUGE, "it can be changed otherwise"
    ask(server, f"{huge}/status", {"status": {"replicas": HUGE}}, "PATCH", "merge-patch+json")
    larger = {"spec": {"replicas": HUGE + 1}}
    with pytest.raises(HTTPError, match="422"):
        ask(server, huge, larger, "PATCH", "merge-patch+json")
    smaller = ask(server, huge, {"spec": {"replicas": 2}}, "PATCH", "merge-patch+json")
    assert smaller["spec"]["replicas"] == 2
    packed = PACKED[1] | {"metadata": {"name": "packed", "namespace": "default"}}
    create(server, f"{SETS}/packed", packed)
    (first, *_) = [path for path in objects if "/podcliques/" in path]
    progress = {"updateProgress": {"readyPodsSelectedToUpdate": {"current": "p", "currentIndex": 3}}}
    progress["updateProgress"]["updateStartedAt"] = "2026-01-01T00:00:00Z"  # type: ignore[assignment]
    ask(server, f"{first}/status", {"status": progress}, "PATCH", "merge-patch+json")
    newer = content(server, objects)

    install(server, earlier("15-grove-crds"), *PACKED, accepts=False)
    unchanged = {path: raw for path, raw in objects.items() if path != first}
    assert content(server, unchanged) == {path: newer[path] for path in unchanged}
    hidden = ask(server, first)["status"]["updateProgress"]["readyPodsSelectedToUpdate"]
    assert hidden == {"current": "p"}, "hidden, as the older CRDs do not know the rest"
    assert ask(server, f"{SETS}/packed")["spec"]["template"]["topologyConstraint"] == OLDER_FORM["topologyConstraint"]
    changed = ask(server, f"{SETS}/packed", {"spec": {"replicas": 3}}, "PATCH", "merge-patch+json")
    assert changed["spec"]["replicas"] == 3, "and it can be changed"

    install(server, grove_crds(), *PACKED, accepts=True)
    assert content(server, objects) == newer, "nothing is lost"
