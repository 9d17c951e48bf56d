"""The pods of a PodClique: names, labels, environment, gate and the init container of a startup order."""

from typing import Any

from muster.api import names
from muster.grove.cliques.clique_controller import build_controller
from muster.grove.cliques.pod_specs import CliqueSettings
from muster.grove.startup import CONTAINER
from muster.workloads.types import Raw
from tests.unit.grove.given_cliques import MAIN, Cliques, a_clique, a_set


def made(clique: Raw, pcs: Raw | None = None) -> Raw:
    """The first pod of a clique."""
    cliques = Cliques(clique, pcs=pcs)
    cliques.settle_cliques()
    return cliques.pods_of(clique["metadata"]["name"])[0]


def environment(pod: Raw, container: int = 0) -> dict[str, Any]:
    return {
        each["name"]: each.get("value") or each["valueFrom"] for each in pod["spec"]["containers"][container]["env"]
    }


def test_a_pod_is_named_after_its_clique_and_belongs_to_it() -> None:
    pod = made(a_clique())
    assert pod["metadata"]["generateName"] == "w-0-a-"
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("PodClique", "w-0-a", True)


def test_labels_and_annotations_say_where_a_pod_belongs() -> None:
    pod = made(a_clique(labels={"team": "x"}, annotations={"note": "y", names.LAST_APPLIED: "{}"}))
    expected = {
        names.MANAGED_BY: names.GROVE_OPERATOR,
        names.PART_OF: "w",
        names.SET_REPLICA: "0",
        "team": "x",
        names.POD_CLIQUE: "w-0-a",
        names.POD_GANG: "w-0",
        names.POD_INDEX: "0",
        names.TEMPLATE_HASH: "h1",
        names.SUBGROUP: "w-0-a",
        names.SKIP_GROUPING: "true",
    }
    assert expected.items() <= pod["metadata"]["labels"].items()
    own = {names.POD_GROUP: "w-0", names.SKIP_GROUPING: "true"}
    assert pod["metadata"]["annotations"] == {"note": "y", **own}, "groupers read the annotation, others the label"


def test_the_queue_of_the_set_is_that_of_its_pods() -> None:
    pcs = a_set()
    pcs["metadata"]["labels"] = {names.QUEUE: "research"}
    assert made(a_clique(labels={names.QUEUE: "other"}), pcs)["metadata"]["labels"][names.QUEUE] == "research"


def test_host_name_and_subdomain_let_pods_find_each_other() -> None:
    cliques = Cliques()
    cliques.settle_cliques()
    assert {pod["spec"]["hostname"] for pod in cliques.pods_of()} == {"w-0-a-0", "w-0-a-1"}
    assert {pod["spec"]["subdomain"] for pod in cliques.pods_of()} == {"w-0"}


def test_gates_of_the_template_stay_beside_that_of_the_gang() -> None:
    pod = made(a_clique(pod_spec={"containers": [MAIN], "schedulingGates": [{"name": "example.com/quota"}]}))
    assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["example.com/quota", names.GANG_GATE]


def test_every_container_knows_its_place() -> None:
    spec = {"containers": [MAIN, {"name": "side", "image": "x"}], "initContainers": [{"name": "init", "image": "x"}]}
    pod = made(a_clique(pod_spec=spec))
    expected = {
        "GROVE_PCS_NAME": "w",
        "GROVE_PCS_INDEX": "0",
        "GROVE_PCLQ_NAME": "w-0-a",
        "GROVE_HEADLESS_SERVICE": "w-0.default.svc.cluster.local",
        "GROVE_PCLQ_POD_INDEX": {"fieldRef": {"fieldPath": f"metadata.labels['{names.POD_INDEX}']"}},
    }
    assert environment(pod) == environment(pod, 1) == expected
    assert pod["spec"]["initContainers"][0]["env"] == pod["spec"]["containers"][0]["env"]


def test_variables_of_grove_come_first_and_win() -> None:
    """Those of users may refer to them."""
    own = [{"name": "GROVE_PCS_NAME", "value": "stale"}, {"name": "ADDRESS", "value": "$(GROVE_HEADLESS_SERVICE)"}]
    pod = made(a_clique(pod_spec={"containers": [{**MAIN, "env": own}]}))
    variables = pod["spec"]["containers"][0]["env"]
    assert [each["name"] for each in variables].count("GROVE_PCS_NAME") == 1
    assert variables[-1]["name"] == "ADDRESS"


def test_members_of_a_scaling_group_know_the_group() -> None:
    cliques = [{"name": name, "spec": {"replicas": replicas}} for name, replicas in (("b", 2), ("c", 3), ("d", 9))]
    pcs = a_set(cliques=cliques, podCliqueScalingGroups=[{"name": "sg", "cliqueNames": ["b", "c"]}])
    labels = {names.SCALING_GROUP: "w-0-sg", names.SCALING_GROUP_REPLICA: "1"}
    variables = environment(made(a_clique("w-0-sg-1-b", labels=labels), pcs))
    assert variables["GROVE_PCSG_TEMPLATE_NUM_PODS"] == "5"
    assert variables["GROVE_PCSG_NAME"] == {"fieldRef": {"fieldPath": f"metadata.labels['{names.SCALING_GROUP}']"}}
    assert "GROVE_PCSG_INDEX" in variables


def test_pods_without_a_scheduler_are_ours_and_others_stay_as_they_are() -> None:
    """A manifest for an operator with a default scheduler works unchanged."""
    assert made(a_clique())["spec"]["schedulerName"] == names.DEFAULT_SCHEDULER
    spec = {"containers": [MAIN], "schedulerName": "kai-scheduler"}
    assert made(a_clique(pod_spec=spec))["spec"]["schedulerName"] == "kai-scheduler"


def test_the_priority_class_of_the_set_is_that_of_pods_that_name_none() -> None:
    pcs = a_set(priorityClassName="high")
    assert made(a_clique(), pcs)["spec"]["priorityClassName"] == "high"
    spec = {"containers": [MAIN], "priorityClassName": "low"}
    assert made(a_clique(pod_spec=spec), pcs)["spec"]["priorityClassName"] == "low"


def test_a_clique_without_parents_has_no_init_container() -> None:
    assert "initContainers" not in made(a_clique())["spec"]


def test_a_clique_with_parents_waits_in_its_last_init_container() -> None:
    """Others may download meanwhile; it has no credentials, and what it reads is an annotation of its own pod."""
    spec = {"containers": [MAIN], "initContainers": [{"name": "download", "image": "x"}]}
    pod = made(a_clique(pod_spec=spec, startsAfter=["w-0-b"]))
    own = pod["spec"]["initContainers"][-1]
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["download", CONTAINER]
    assert own["args"] == ["wait-for-cliques", "/etc/muster/startup/startup"]
    assert own["securityContext"]["runAsNonRoot"] is True
    [volume] = pod["spec"]["volumes"]
    assert set(volume) == {"name", "downwardAPI"}
    assert pod["metadata"]["annotations"][names.STARTUP] == "after w-0-b"


def test_the_init_container_keeps_the_requests_and_the_qos_class_of_the_pod() -> None:
    """Guaranteed stays so only if every container has limits; no GPU is asked for twice."""
    resources = {"limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "8"}}
    pod = made(a_clique(pod_spec={"containers": [{**MAIN, "resources": resources}]}, startsAfter=["w-0-b"]))
    assert pod["spec"]["initContainers"][0]["resources"] == {"limits": {"cpu": "2", "memory": "4Gi"}}
    assert made(a_clique(startsAfter=["w-0-b"]))["spec"]["initContainers"][0]["resources"] == {}


def test_the_image_of_the_init_container_is_configured() -> None:
    cliques = Cliques(a_clique(startsAfter=["w-0-b"]))
    cliques.controllers = {key: build_controller(CliqueSettings(startup_image="r/m:2")) for key in cliques.controllers}
    cliques.settle_cliques()
    assert cliques.pods_of()[0]["spec"]["initContainers"][0]["image"] == "r/m:2"
