"""CRDs of an earlier version, of this one, and of the earlier one again: what is stored stays.

`earlier/10-crds.yaml` holds the first CRDs that were ever deployed. An API server of its own: others need the CRDs.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError

import msgspec
import pytest
import yaml

from muster.kube.cluster import Raw
from muster.validation.crds import own_crds
from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import ApiServer, started

EARLIER = Path(__file__).parent / "earlier" / "10-crds.yaml"
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
    running = started(programs, definitions=earlier())
    yield running
    running.stop()
    running.clean(keep_logs=False)


def earlier() -> list[Raw]:
    return list(yaml.safe_load_all(EARLIER.read_text(encoding="utf-8")))


def ask(server: ApiServer, path: str, raw: Raw | None = None, method: str = "GET", media: str = "json") -> Raw:
    body = None if raw is None else msgspec.json.encode(raw)
    answer: Raw = msgspec.json.decode(server.request(path, body, method, f"application/{media}"))
    return answer


def install(server: ApiServer, definitions: list[Raw], *, takes_zero: bool) -> None:
    """As `kubectl replace` does, until the API server validates by them."""
    for crd in definitions:
        path = f"{DEFINITIONS}/{crd['metadata']['name']}"
        stored = ask(server, path)
        ask(server, path, stored | {"spec": crd["spec"]}, "PUT")
    until(lambda: _takes_zero(server) == takes_zero)


def _takes_zero(server: ApiServer) -> bool:
    """Only the newer CRDs take a 0 beside the other minimum (V1)."""
    groups = [{"name": "a", "minMember": 1}]
    raw = stored("probe", {"minMember": 0, "minSubGroup": 1, "subGroups": groups})
    try:
        ask(server, f"{GROUPS}?dryRun=All", raw, "POST")
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

    install(server, own_crds(), takes_zero=True)
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

    install(server, earlier(), takes_zero=False)
    for name, spec in (("old", SPEC | {"queue": "team-b"}), ("new", SPEC)):
        downgraded = ask(server, f"{GROUPS}/{name}")
        assert parts(downgraded) == {"spec": spec, **META}
        assert kept(downgraded) == BOTH
    assert "leftovers" not in ask(server, f"{GROUPS}/new")["status"], "hidden, as the older CRDs do not know it"
    assert {path: ask(server, f"{path}/x")["spec"] for path in OTHERS} == others

    install(server, own_crds(), takes_zero=True)
    assert ask(server, f"{GROUPS}/new") == newer, "nobody wrote it meanwhile, so that nothing is lost"
