"""The conformance suite comes out as it says, and every case says why it is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli.conformance import run
from muster.kube.manifest_files import sources

FOLDER = Path(__file__).parents[2] / "conformance"
CASES = sorted(FOLDER.glob("*.yaml"))
FILE = re.compile(r"\d{3}-(?P<name>[a-z0-9]+(-[a-z0-9]+)*)")
RULE = re.compile(r"[A-Z]\d+")

each = pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)


def case_of(path: Path) -> Any:
    (case,) = (one for one in yaml.safe_load_all(path.read_bytes()) if one["kind"] == "Case")
    return case


@each
def test_a_case_comes_out_as_it_says(path: Path) -> None:
    (source,) = sources([path])
    assert run(source).misses == ()


@each
def test_a_case_says_why_it_is_hard_and_which_rules_decide_it(path: Path) -> None:
    case, file = case_of(path), FILE.fullmatch(path.stem)
    assert file is not None
    assert file["name"] == case["metadata"]["name"]
    assert case["spec"]["why"].strip()
    assert case["spec"]["expect"]
    assert case["spec"]["rules"]
    assert all(RULE.fullmatch(rule) for rule in case["spec"]["rules"])


def test_there_are_enough_cases_and_no_two_of_one_name_or_number() -> None:
    assert len(CASES) >= 300
    assert len({case_of(path)["metadata"]["name"] for path in CASES}) == len(CASES)
    assert len({path.name[:3] for path in CASES}) == len(CASES)
