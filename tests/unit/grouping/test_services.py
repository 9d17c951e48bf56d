"""Knative and Spark: what serves, and what computes with executors that come and go."""

import pytest

from muster.grouping.types import Owner, WorkloadPod
from tests.support.owned_pods import assigned, grouped, labelled, leaf, owner, picture, pod, tree, ungrouped

REPLICA_SET = owner("{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: hello-1-deployment-5d}}")
DEPLOYMENT = owner("{apiVersion: apps/v1, kind: Deployment, metadata: {name: hello-1-deployment}}")
CONFIGURATION = owner("{apiVersion: serving.knative.dev/v1, kind: Configuration, metadata: {name: hello}}")
SERVICE = owner("{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: hello}}")
SELECTOR = "spark-77204fbefcd04f1bb63816fcf9528cf1"
APPLICATION = owner("{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, metadata: {name: pi}}")
DRIVER = owner("{apiVersion: v1, kind: Pod, metadata: {name: pi-driver}}")


def revision(name: str = "hello-1", **annotations: str) -> Owner:
    stated = {f"autoscaling.knative.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    raw = {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Revision",
        "metadata": {"name": name, "annotations": stated},
    }
    return owner(raw)


def above(of: Owner) -> tuple[Owner, ...]:
    return REPLICA_SET, DEPLOYMENT, of, CONFIGURATION, labelled(SERVICE, queue="serving")


def spark(role: str, name: str) -> WorkloadPod:
    return pod(name, {"spark-app-name": "pi", "spark-app-selector": SELECTOR, "spark-role": role})


def test_every_revision_of_a_knative_service_is_a_gang() -> None:
    """Two of them serve side by side while traffic moves."""
    group = grouped(pod("hello-1-x"), *above(revision()))
    assert group.metadata.name == "pg-hello-1-uid-hello-1"
    assert group.metadata.owner_references[0].kind == "Revision"
    assert (group.spec.priority_class_name, group.spec.queue) == ("inference", "serving")
    assert grouped(pod("hello-2-x"), *above(revision("hello-2"))).metadata.name == "pg-hello-2-uid-hello-2"
    assert assigned(pod(), *above(revision())).rule == "Revision"


@pytest.mark.parametrize(("annotations", "expected"), [({}, "1"), ({"min_scale": "3"}, "3"), ({"minScale": "2"}, "2"),
                                                       ({"min_scale": "0"}, "1")])  # fmt: skip
def test_a_revision_needs_what_it_never_scales_below(annotations: dict[str, str], expected: str) -> None:
    assert tree(grouped(pod(), *above(revision(**annotations)))) == expected


def test_a_scale_that_is_none_is_said() -> None:
    assert ungrouped(pod(), *above(revision(min_scale="many"))).reason == "InvalidAnnotation"


def test_a_spark_application_needs_its_driver_and_executors_join_it() -> None:
    driver, executor = spark("driver", "pi-driver"), spark("executor", "pi-exec-1")
    group = grouped(driver)
    assert group.metadata.name == SELECTOR
    assert tree(group) == picture("""
        1/2
          driver: 1
          executor: 1
    """)
    assert (leaf(driver), leaf(executor, DRIVER)) == ("driver", "executor")


def test_driver_and_executors_have_the_same_podgroup() -> None:
    """The driver owns the executors; an operator's application owns the driver."""
    alone, executor = grouped(spark("driver", "pi-driver")), grouped(spark("executor", "pi-exec-1"), DRIVER)
    assert (alone.metadata.name, alone.metadata.owner_references) == (SELECTOR, executor.metadata.owner_references)
    assert alone.spec == executor.spec
    of_operator = grouped(spark("driver", "pi-driver"), APPLICATION)
    assert of_operator == grouped(spark("executor", "pi-exec-1"), DRIVER, APPLICATION)
    assert of_operator.metadata.owner_references[0].kind == "SparkApplication"


def test_executors_of_a_driver_outside_of_the_cluster_share_a_podgroup_that_none_of_them_owns() -> None:
    """It would be deleted with the first executor that ends."""
    first, second = (grouped(spark("executor", name)) for name in ("pi-exec-1", "pi-exec-2"))
    assert first.metadata.name == second.metadata.name == SELECTOR
    assert first.metadata.owner_references == ()


def test_executors_of_a_stateful_set_and_of_a_step_of_a_workflow_find_their_driver() -> None:
    """Spark may make executors by StatefulSets, and Argo may run the driver."""
    executors = owner("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: spark-s-77204fbe-0}}")
    workflow = owner("{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: flow}}")
    driver = grouped(spark("driver", "pi-driver"), labelled(workflow, queue="blue"))
    assert driver.spec.queue == "blue"
    for owners in ((DRIVER,), (executors, DRIVER)):
        executor = grouped(spark("executor", "pi-exec-1"), *owners, labelled(workflow, queue="blue"))
        assert (executor.metadata.name, executor.spec) == (driver.metadata.name, driver.spec)
        assert executor.metadata.owner_references == driver.metadata.owner_references


def test_a_spark_connect_server_starts_alone_and_its_executors_join_when_they_come() -> None:
    """The operator labels the server as neither driver nor part of an application."""
    connect = labelled(
        owner("{apiVersion: sparkoperator.k8s.io/v1alpha1, kind: SparkConnect, metadata: {name: sc}}"), queue="blue"
    )
    server = pod("sc-server", {"spark-role": "connect-server", "sparkoperator.k8s.io/connect-name": "sc"})
    assert tree(grouped(server, connect)) == "1"
    owner_of_executors = owner("{apiVersion: v1, kind: Pod, metadata: {name: sc-server}}")
    executors = grouped(spark("executor", "sc-exec-1"), owner_of_executors, connect, present={"executor"})
    assert executors.spec.min_sub_group == 1  # no driver is waited for
    assert executors.spec.queue == "blue"


def test_a_pod_of_an_application_without_labels_of_spark_is_grouped_by_the_default_rule() -> None:
    assert grouped(pod("pi-x"), APPLICATION).metadata.name == "pg-pi-uid-pi"
