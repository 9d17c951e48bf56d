"""What a release consists of: a CycloneDX document of muster and everything that it needs, from uv.lock.

Versions, files and their hashes are those of the lock file; licences those that the installed packages state. The same
lock file gives the same bytes.
"""

import json
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

SPEC_VERSION = "1.6"
ROOT = "muster"
# what `License ::` classifiers are called in SPDX; others are given by their name
SPDX = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
Package = Mapping[str, Any]  # as uv.lock has it


def sbom(lock: str, version: str, epoch: int) -> str:
    """The document as JSON."""
    packages = tomllib.loads(lock)["package"]
    needed = runtime_packages(packages)
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": _root(version),
        },
        "components": [_component(package) for package in needed if package["name"] != ROOT],
        "dependencies": [_dependencies(package, packages) for package in needed],
    }
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def runtime_packages(packages: Sequence[Package]) -> list[Package]:
    """muster and all that it needs at run time, on any platform and Python, in order of their names."""
    needed: dict[str, Package] = {}
    ahead = [package for package in packages if package["name"] == ROOT]
    while ahead:
        package = ahead.pop()
        if _reference(package) not in needed:
            needed[_reference(package)] = package
            ahead += _needs(package, packages)
    return [needed[reference] for reference in sorted(needed)]


def _needs(package: Package, packages: Sequence[Package]) -> list[Package]:
    """A dependency names a version where the lock file has several."""
    wanted = [(each["name"], each.get("version")) for each in package.get("dependencies", ())]
    return [each for each in packages if (each["name"], each["version"]) in wanted or (each["name"], None) in wanted]


def _root(version: str) -> dict[str, Any]:
    return {
        "type": "application",
        "bom-ref": f"pkg:pypi/{ROOT}@{version}",
        "name": ROOT,
        "version": version,
        "purl": f"pkg:pypi/{ROOT}@{version}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }


def _component(package: Package) -> dict[str, Any]:
    reference = _reference(package)
    component = {
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
        "externalReferences": list(_files(package)),
    }
    licenses = _licenses(package["name"], package["version"])
    return component | ({"licenses": licenses} if licenses else {})


def _reference(package: Package) -> str:
    return f"pkg:pypi/{package['name']}@{package['version']}"


def _files(package: Package) -> Iterator[dict[str, Any]]:
    """Every file that the lock file allows, with its hash."""
    for file in (*([package["sdist"]] if "sdist" in package else ()), *package.get("wheels", ())):
        algorithm, _, content = file["hash"].partition(":")
        assert algorithm == "sha256", file
        yield {"type": "distribution", "url": file["url"], "hashes": [{"alg": "SHA-256", "content": content}]}


def _licenses(name: str, version: str) -> list[dict[str, Any]]:
    """As the installed package states them; none where another version is installed, or none at all."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if about["Version"] != version:
        return []
    if expressions := about.get_all("License-Expression", ()):
        return [{"expression": expressions[0]}]
    classified = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", ()) if line.startswith("License")]
    return [{"license": {"id": SPDX[name]} if SPDX.get(name) else {"name": name}} for name in classified]


def _dependencies(package: Package, packages: Sequence[Package]) -> dict[str, Any]:
    return {"ref": _reference(package), "dependsOn": sorted(map(_reference, _needs(package, packages)))}
