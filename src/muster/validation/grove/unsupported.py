"""Parts of Grove that muster does not support (R8): refused by name, never ignored."""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api.fields import at as value_at
from muster.api.fields import text, texts
from muster.validation.grove.places import CLIQUES, GROUPS, TEMPLATE, parts
from muster.validation.problem import Problem

AUTO_MNNVL = "grove.io/auto-mnnvl"
MNNVL_GROUP = "grove.io/mnnvl-group"
_SWITCHED_OFF = frozenset(((AUTO_MNNVL, "disabled"), (MNNVL_GROUP, "none")))
_CLAIMS = "name a ResourceClaimTemplate in `resourceClaims` of the pod spec: each pod then has a claim of its own"
_RATE = "leave it out: updates replace one pod or one replica at a time"
_DELAY = "set `terminationDelay` of the set, which holds for all its groups"
SET_FIELDS: Mapping[str, str] = {"resourceClaimTemplates": _CLAIMS, "resourceSharing": _CLAIMS}
CLIQUE_FIELDS: Mapping[str, str] = {"resourceSharing": _CLAIMS, "rollingUpdate": _RATE}
GROUP_FIELDS: Mapping[str, str] = {"resourceSharing": _CLAIMS, "rollingUpdate": _RATE, "terminationDelay": _DELAY}


def judge(raw: Any) -> Iterator[Problem]:
    """Every part of a PodCliqueSet, as it is written, that muster cannot keep."""
    yield from _fields(TEMPLATE, value_at(raw, TEMPLATE), SET_FIELDS)
    yield from _annotations("metadata.annotations", texts(raw, "metadata.annotations"))
    for path, fields in ((CLIQUES, CLIQUE_FIELDS), (GROUPS, GROUP_FIELDS)):
        for i, part in enumerate(parts(raw, path)):
            yield from _fields(f"{path}[{i}]", part, fields)
            yield from _annotations(f"{path}[{i}].annotations", texts(part, "annotations"))
    if text(raw, "spec.updateStrategy.type") == "Coherent":
        says = "`Coherent` is not supported: old and new pods of a replica serve side by side during an update"
        hint = "RollingRecreate updates replica by replica, OnDelete leaves it to you"
        yield Problem("spec.updateStrategy.type", says, hint=hint, rule="R8")


def _fields(at: str, part: Any, fields: Mapping[str, str]) -> Iterator[Problem]:
    for field, way_out in fields.items():
        if isinstance(part, dict) and part.get(field):
            yield Problem(f"{at}.{field}", "is not supported by muster", hint=way_out, rule="R8")


def _annotations(at: str, annotations: Mapping[str, str]) -> Iterator[Problem]:
    for name in (AUTO_MNNVL, MNNVL_GROUP):
        if name in annotations and (name, annotations[name]) not in _SWITCHED_OFF:
            yield Problem(
                f"{at}[{name}]",
                "multi-node NVLink is not supported by muster: no ComputeDomain would be made",
                hint="remove it, and name a claim of the ComputeDomain in `resourceClaims` of the pod spec",
                rule="R8",
            )
