"""Plans as data, of chains deeper than any encoder follows (N1)."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from muster.api.codec import to_json, to_json_line, to_yaml
from muster.cli.main import cli
from tests.spec.test_deep_chains import chain

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES)
def test_one_line_says_what_any_json_says(value: Any) -> None:
    """Whatever is in it; of a shallow value the usual form is the definition."""
    assert json.loads(to_json_line(value)) == json.loads(to_json(value)) == value


def test_deep_values_are_written_in_one_line() -> None:
    """JSON is YAML, too."""
    deep: Any = 1
    for _ in range(20_000):
        deep = {"a": [deep]}
    text = '{"a":[' * 20_000 + "1" + "]}" * 20_000
    assert to_json(deep) == text
    assert to_yaml([deep, deep]) == f"{text}\n---\n{text}\n"
    assert list(yaml.safe_load_all(to_yaml([{"a": [1]}, {"b": 2}]))) == [{"a": [1]}, {"b": 2}]


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("verb", ["plan", "explain"])
def test_verbs_print_chains_of_any_depth(verb: str, form: str, tmp_path: Path) -> None:
    """Every group is in it, and no internal error."""
    file = tmp_path / "chain.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": chain(1_200)}))
    gang = ["team/gang"] if verb == "explain" else []
    ran = CliRunner().invoke(cli, [verb, *gang, "-o", form, str(file)], standalone_mode=False)
    assert ran.exception is None
    assert '"name":"g1199"' in ran.stdout
