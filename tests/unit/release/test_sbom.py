"""The SBOM and the provenance: complete, valid by their own standards, and the same from the same commit."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from muster import __version__
from release.provenance import checksums, provenance, sha256
from release.sbom import runtime_packages, sbom

LOCK = Path(__file__).parents[3] / "uv.lock"
EPOCH = 1_767_225_600
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def text() -> str:
    return sbom(LOCK.read_text(), __version__, EPOCH)


@pytest.fixture(scope="module")
def document(text: str) -> Any:
    return json.loads(text)


def test_it_is_valid_by_the_schema(text: str) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"bomFormat"', '"format"')) is not None


def test_it_is_the_same_every_time(text: str) -> None:
    assert sbom(LOCK.read_text(), __version__, EPOCH) == text


def test_it_holds_all_that_muster_needs_and_no_tools_of_the_tests(document: Any) -> None:
    names = {component["name"] for component in document["components"]}
    stated = {line.split(">")[0] for line in _project()["dependencies"]}
    assert stated <= names
    assert {"cffi", "h11"} <= names, "what those need, too"
    assert not {"pytest", "hypothesis", "mypy", "muster"} & names
    (root,) = [each for each in document["dependencies"] if each["ref"].startswith("pkg:pypi/muster@")]
    assert {reference.partition("/")[2].partition("@")[0] for reference in root["dependsOn"]} == stated


def _project() -> Any:
    return tomllib.loads((LOCK.parent / "pyproject.toml").read_text())["project"]


def test_every_component_has_its_files_with_hashes_and_most_a_licence(document: Any) -> None:
    components = document["components"]
    for component in components:
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
        hashes = [reference["hashes"][0]["content"] for reference in component["externalReferences"]]
        assert hashes
        assert all(len(content) == 64 for content in hashes)
    licensed = {component["name"] for component in components if component.get("licenses")}
    assert licensed == {component["name"] for component in components}


def test_several_versions_of_a_package_are_distinct() -> None:
    """uv.lock has one for each range of Pythons where they differ."""

    def package(name: str, version: str, *needs: dict[str, str]) -> dict[str, Any]:
        return {"name": name, "version": version, "dependencies": list(needs)}

    one, two = {"name": "b", "version": "1"}, {"name": "b", "version": "2"}
    packages = [
        package("muster", "0", one, {"name": "c"}),
        package("b", "1"),
        package("b", "2"),
        package("b", "3"),
        package("c", "1", two, {"name": "muster"}),
    ]
    assert [(each["name"], each["version"]) for each in runtime_packages(packages)] == [
        ("b", "1"),
        ("b", "2"),
        ("c", "1"),
        ("muster", "0"),
    ]


def test_the_provenance_names_files_commit_and_command(tmp_path: Path) -> None:
    """An in-toto statement, version 1, with SLSA provenance, version 1."""
    wheel = tmp_path / "muster.whl"
    wheel.write_bytes(b"wheel")
    image = {"name": "muster:1", "base": f"python:3.13@sha256:{'b' * 64}", "digest": f"sha256:{'a' * 64}"}
    made = json.loads(provenance([wheel], COMMIT, EPOCH, LOCK, "make release", image))
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    assert made["predicateType"] == "https://slsa.dev/provenance/v1"
    assert made["subject"] == [
        {"name": "muster.whl", "digest": {"sha256": sha256(wheel)}},
        {"name": "muster:1", "digest": {"sha256": "a" * 64}},
    ]
    definition, details = made["predicate"]["buildDefinition"], made["predicate"]["runDetails"]
    assert definition["externalParameters"] == {"command": "make release", "commit": COMMIT}
    assert definition["resolvedDependencies"] == [
        {"name": "source", "digest": {"gitCommit": COMMIT}},
        {"name": "uv.lock", "digest": {"sha256": sha256(LOCK)}},
        {"name": "python:3.13", "digest": {"sha256": "b" * 64}},
    ]
    assert details["builder"]["id"].startswith("https://")
    assert checksums([wheel]) == f"{sha256(wheel)}  muster.whl\n"
