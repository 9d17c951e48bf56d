"""Label and field selectors."""

import pytest

from muster.api.resources import CONFIG_MAPS, EVENTS, NODES, PODS
from muster.embedded.store import selectors
from muster.kube.errors import ApiError


@pytest.mark.parametrize("text", ["a in", "a in (", "=b", "a=b=c", "a b", "a in b", "a=(b)", "-a"])
def test_a_label_selector_that_cannot_be_read_is_a_bad_request(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        selectors.label_predicate(text)
    assert caught.value.status == 400


def test_field_selectors_match_the_fields_that_a_kind_supports() -> None:
    pod = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x"}, "status": {"phase": "Running"}}
    for text, expected in (
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name=a,metadata.namespace=n", True),
        ("spec.nodeName=x", True),
        ("spec.nodeName!=x", False),
        ("spec.nodeName=", False),
        ("status.phase!=Running", False),
        ("spec.hostNetwork=false", True),
    ):
        assert selectors.field_predicate(PODS, text)(pod) is expected, text
    assert selectors.field_predicate(NODES, "spec.unschedulable=false")({"metadata": {"name": "n"}})
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a"}, "source": {"component": "m"}}
    assert selectors.field_predicate(EVENTS, "involvedObject.kind=Pod,source=m")(event)


def test_a_field_selector_that_a_kind_does_not_support_is_a_bad_request() -> None:
    for text in ("data.x=1", "spec.nodeName=x", "metadata.name"):
        with pytest.raises(ApiError) as caught:
            selectors.field_predicate(CONFIG_MAPS, text)
        assert caught.value.status == 400
