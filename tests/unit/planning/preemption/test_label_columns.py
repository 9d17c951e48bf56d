"""Labels in columns select what a selector says, for all pods at once."""

from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.api.meta import LabelSelector, LabelSelectorRequirement
from muster.model.selectors import selects
from muster.model.snapshot import take
from muster.planning.preemption.disruption_budgets import DisruptionBudgets
from muster.planning.preemption.label_columns import LabelColumns, keys_of
from tests.spec.test_deep_chains import calls
from tests.support.factories import Raw, pod

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(["", "x", "y", "z"])
LABELS = st.dictionaries(KEYS, VALUES)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"])
EXPRESSIONS = st.builds(LabelSelectorRequirement, key=KEYS, operator=OPERATORS, values=st.lists(VALUES).map(tuple))
SELECTORS = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(KEYS, VALUES, max_size=2),
    match_expressions=st.lists(EXPRESSIONS, max_size=2).map(tuple),
)


@given(st.lists(LABELS, max_size=8), st.none() | SELECTORS)
def test_columns_select_what_the_definition_selects(pods: list[dict[str, str]], selector: LabelSelector | None) -> None:
    """Any operator, any label; no selector selects nothing, an empty one everything."""
    selected = LabelColumns(pods, keys_of(selector)).selected(selector)
    assert selected.tolist() == [i for i, labels in enumerate(pods) if selects(selector, labels)]


def budget(name: str, selector: Raw) -> Raw:
    meta = {"name": name, "namespace": "team"}
    spec = {"selector": selector, "maxUnavailable": 1}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec}


def test_budgets_that_have_a_label_in_common_do_not_look_at_each_other_s_pods() -> None:
    """X7: `component: worker` is on all pods, `instance` tells them apart; some budgets select almost all."""
    common = {"component": "worker"}
    raws = [pod(f"p{i}", on="n", phase="Running") for i in range(500)]
    for i, raw in enumerate(raws):
        raw["metadata"]["labels"] = {**common, "instance": f"i{i}"}
    raws += [budget(f"own-{i}", {"matchLabels": {**common, "instance": f"i{i}"}}) for i in range(500)]
    others = [{"key": "instance", "operator": "NotIn", "values": [f"i{i}"]} for i in range(200)]
    raws += [budget(f"rest-{i}", {"matchExpressions": [one]}) for i, one in enumerate(others)]
    snapshot = take(muster.objects(raws))
    assert calls(lambda _: DisruptionBudgets(snapshot), raws) < 100_000
    budgets = DisruptionBudgets(snapshot)
    assert budgets.left == [1] * 700
    assert len(budgets.stuck) == 500
