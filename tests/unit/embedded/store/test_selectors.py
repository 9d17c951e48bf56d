"""Label and field selectors."""

import pytest

from muster.embedded.store import selectors
from muster.embedded.store.kinds import CONFIG_MAPS, EVENTS, NODES, PODS
from muster.kube.cluster import ApiError

LABELS = {"app": "web", "tier": "front", "count": "5", "example.com/x": ""}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=api", False),
        ("app!=api", True),
        ("missing!=x", True),
        ("missing=x", False),
        ("app", True),
        ("!app", False),
        ("! missing", True),
        ("app in (web, api)", True),
        ("app in (api)", False),
        ("app notin (api)", True),
        ("missing notin (api)", True),
        ("missing in (api)", False),
        ("app in (web,api),tier=front", True),
        ("app in (web,api),tier=back", False),
        ("example.com/x=", True),
        ("example.com/x", True),
        ("count>4", True),
        ("count<5", False),
        ("app>4", False),
    ],
)
def test_label_selectors_select_as_kubernetes_does(text: str, wanted: bool) -> None:
    assert selectors.labels(text)(LABELS) is wanted


@pytest.mark.parametrize("text", ["a in", "a in (", "=b", "a=b=c", "a b", "a in b", "a=(b)", "-a"])
def test_label_selectors_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        selectors.labels(text)
    assert caught.value.status == 400


def test_field_selectors_ask_what_their_kind_allows() -> None:
    pod = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}}
    for text, wanted in (
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name=a,metadata.namespace=n", True),
        ("spec.nodeName=x", True),
        ("spec.nodeName!=x", False),
        ("spec.nodeName=", False),
        ("status.phase!=Running", False),
        ("spec.hostNetwork=false", True),
    ):
        assert selectors.fields(PODS, text)(pod) is wanted, text
    assert selectors.fields(NODES, "spec.unschedulable=false")({"metadata": {"name": "n"}})
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a"}, "source": {"component": "m"}}
    assert selectors.fields(EVENTS, "involvedObject.kind=Pod,source=m")(event)


def test_field_selectors_that_a_kind_does_not_know_are_refused() -> None:
    for text in ("data.x=1", "spec.nodeName=x", "metadata.name"):
        with pytest.raises(ApiError) as caught:
            selectors.fields(CONFIG_MAPS, text)
        assert caught.value.status == 400


def test_selectors_of_objects() -> None:
    assert not selectors.selects(None, LABELS)
    assert selectors.selects({}, LABELS)
    assert selectors.selects({"matchLabels": {"app": "web"}}, LABELS)
    for operator, values, wanted in (
        ("In", ["web"], True),
        ("NotIn", ["web"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Unheard", [], False),
    ):
        expression = {"key": "app", "operator": operator, "values": values}
        assert selectors.selects({"matchExpressions": [expression]}, LABELS) is wanted
