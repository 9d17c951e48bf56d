"""What a pod says that a user keeps from being grouped, and that names no PodGroup."""

from datetime import UTC, datetime

import pytest

import muster
from muster.api.core import Pod
from muster.kube.cache.interning import PodInterner
from muster.reporting.conditions import of_stray
from muster.scheduler.status.gang_events import about_stray
from muster.validation.pods.membership import orphan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SKIP = {"kai.scheduler/skip-podgrouper": "true"}


def pod(**meta: object) -> Pod:
    """As the scheduler has it in its cache."""
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "1", **meta}, "spec": {}}
    return PodInterner().intern(muster.objects([raw]).pods[0])


@pytest.mark.parametrize("meta", [{"annotations": SKIP}, {"labels": SKIP}], ids=["annotation", "label"])
def test_a_skipped_pod_says_the_way_out(meta: dict[str, object]) -> None:
    """Nothing groups it, and its owner may have been written long ago: the reason alone does not help."""
    stray = orphan(pod(**meta))
    for text in (of_stray(stray).message, about_stray(stray, pod(**meta), NOW)["message"]):
        assert text.startswith("the pod names no podgroup in its annotation `pod-group-name`; hint: ")
        assert "`kai.scheduler/skip-podgrouper`" in text
        assert "remove" in text
        assert "create a PodGroup" in text


def test_a_pod_that_names_a_missing_pod_group_has_its_own_reason() -> None:
    stray = orphan(pod(annotations={**SKIP, "pod-group-name": "mine"}))
    assert (stray.why, of_stray(stray).message) == (
        "NoSuchPodGroup",
        "the pod names podgroup `default/mine`, which does not exist",
    )
