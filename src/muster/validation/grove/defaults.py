"""Defaults of a PodCliqueSet, as Grove's operator sets them on admission.

Rule 1: one function, for the webhook, the embedded cluster and files. Rule 2: values of wrong types stay as they are,
for the rules to report. Rule 3: pod specs are left alone: the API server sets the defaults of pods.
"""

from collections.abc import Callable, Mapping
from typing import Any

from muster.api.fields import items, mapping, text
from muster.api.grove.pod_clique_set import ANY_ORDER

Raw = dict[str, Any]
TERMINATION_DELAY = "4h0m0s"


def with_set_defaults(raw: Raw, old: Any = None) -> Raw:
    """A PodCliqueSet with its defaults; an update that leaves out a minimum keeps that of `old`: it cannot change."""
    template = mapping(raw, "spec.template")
    if not template:
        return raw
    stored = mapping(with_set_defaults(old), "spec.template") if isinstance(old, dict) else {}
    spec = {**raw["spec"], "template": _template(template, stored)}
    return {**raw, "spec": spec if spec.get("replicas") is not None else {**spec, "replicas": 0}}


def _template(template: Raw, stored: Raw) -> Raw:
    cliques = {text(clique, "name"): mapping(clique, "spec") for clique in items(stored, "cliques")}
    groups = {text(group, "name"): group for group in items(stored, "podCliqueScalingGroups")}
    filled = {
        **template,
        "cliqueStartupType": template.get("cliqueStartupType") or ANY_ORDER,
        "terminationDelay": _or(template.get("terminationDelay") or None, TERMINATION_DELAY),
        "headlessServiceConfig": _service(template.get("headlessServiceConfig")),
        "cliques": _each(template.get("cliques"), lambda clique: _clique(_packed(clique), cliques)),
    }
    if template.get("podCliqueScalingGroups") is not None:
        filled["podCliqueScalingGroups"] = _each(
            template["podCliqueScalingGroups"],
            lambda group: _group(_packed(group), groups.get(text(group, "name"), {})),
        )
    return _packed(filled)


def _packed(part: Raw) -> Raw:
    """A set, group or clique with `pack.required` in place of `packDomain`, its older form."""
    constraint = part.get("topologyConstraint")
    if not isinstance(constraint, dict) or not text(constraint, "packDomain"):
        return part
    pack, domain = _or(constraint.get("pack"), {}), constraint["packDomain"]
    if not isinstance(pack, dict) or (pack.get("required") or domain) != domain:
        return part
    rest = {field: value for field, value in constraint.items() if field != "packDomain"}
    return {**part, "topologyConstraint": {**rest, "pack": {**pack, "required": domain}}}


def _each(values: Any, default: Callable[[Raw], Raw]) -> Any:
    if not isinstance(values, list):
        return values
    return [default(value) if isinstance(value, dict) else value for value in values]


def _clique(clique: Raw, stored: Mapping[str, Raw]) -> Raw:
    spec = clique.get("spec")
    if not isinstance(spec, dict):
        return clique
    replicas = 1 if _is_number(spec.get("replicas"), 0) else _or(spec.get("replicas"), 1)
    minimum = stored.get(text(clique, "name"), {}).get("minAvailable", replicas)
    filled = {**spec, "replicas": replicas, "minAvailable": _or(spec.get("minAvailable"), minimum)}
    return {**clique, "spec": _with_scaling(filled, "autoScalingConfig", replicas)}


def _group(group: Raw, stored: Raw) -> Raw:
    replicas = _or(group.get("replicas"), 1)
    minimum = _or(group.get("minAvailable"), stored.get("minAvailable", 1))
    return _with_scaling({**group, "replicas": replicas, "minAvailable": minimum}, "scaleConfig", replicas)


def _with_scaling(part: Raw, field: str, replicas: Any) -> Raw:
    scaling = part.get(field)
    if not isinstance(scaling, dict):
        return part
    return {**part, field: {**scaling, "minReplicas": _or(scaling.get("minReplicas"), replicas)}}


def _service(service: Any) -> Any:
    if service is not None and not isinstance(service, dict):
        return service
    named = service or {}
    return {**named, "publishNotReadyAddresses": _or(named.get("publishNotReadyAddresses"), True)}


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == number
