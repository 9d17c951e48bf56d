"""Label selectors, as objects and as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.api.resources import CONFIG_MAPS
from muster.embedded.cluster_store import ClusterStore
from muster.embedded.store.selectors import selector_text
from muster.model.selectors import meets_all, parse_requirements, selects

LABELS = {"app": "web", "tier": "front", "count": "5", "example.com/x": ""}
KEYS, VALUES = st.sampled_from(["a", "b", "example.com/c"]), st.sampled_from(["x", "y", "z"])
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])
EXPRESSIONS = st.builds(
    LabelSelectorRequirement, key=KEYS, operator=OPERATORS, values=st.lists(VALUES, min_size=1, max_size=3).map(tuple)
)
SELECTORS = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(KEYS, VALUES, max_size=2),
    match_expressions=st.lists(EXPRESSIONS, max_size=3).map(tuple),
)


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_selectors_as_text_select_as_kubernetes_does(text: str, expected: bool) -> None:
    assert meets_all(parse_requirements(text), LABELS) is expected


@pytest.mark.parametrize("text", ["a in", "a in (", "=b", "a=b=c", "a b", "a in b", "a=(b)", "-a", "a>" + "9" * 5000])
def test_selectors_that_cannot_be_parsed_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=text[:1]):
        parse_requirements(text)


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("web",), True),
        ("NotIn", ("web",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("4",), False),
        ("Unknown", (), False),
    ],
)
def test_selectors_of_objects_select_as_kubernetes_does(operator: str, values: tuple[str, ...], expected: bool) -> None:
    """`Gt` and `Lt` are operators of selectors as text only, not of a LabelSelector."""
    key = "count" if operator == "Gt" else "app"
    assert not selects(None, LABELS)
    assert selects(LabelSelector(), LABELS)
    assert selects(LabelSelector(match_labels={"app": "web"}), LABELS)
    assert (
        selects(LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),)), LABELS) is expected
    )


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=3), max_size=5), SELECTORS)
def test_the_embedded_cluster_selects_by_text_what_the_object_selects(
    labels: list[dict[str, str]], selector: LabelSelector
) -> None:
    """A selector means the same as an object of a spec and as `?labelSelector=`."""
    for i, pairs in enumerate(labels):
        STORE.create(CONFIG_MAPS, {"metadata": {"name": f"c{i}", "labels": pairs}})
    raw = {
        "matchLabels": selector.match_labels,
        "matchExpressions": [
            {"key": item.key, "operator": item.operator, "values": item.values} for item in selector.match_expressions
        ],
    }
    listing = STORE.delete_collection(CONFIG_MAPS, "default", labels=selector_text(raw))
    STORE.delete_collection(CONFIG_MAPS, "default")
    names = [item["metadata"]["name"] for item in listing.items]
    assert names == [f"c{i}" for i, pairs in enumerate(labels) if selects(selector, pairs)]


STORE = ClusterStore()  # one for all examples: every test leaves it empty
