"""values.schema.json: what Helm accepts as values of the chart, made from values.yaml and the configuration's types.

Rule: every value that is in values.yaml must be there, so that no template meets nothing; under `config` stand the
settings of config.py, but for those that the chart fills in; whatever else is written is a mistake, and is refused.
"""

from collections.abc import Iterable
from typing import get_args

import msgspec

from muster.api.meta import Wire
from muster.config import settings
from tests.support.factories import Raw

FILLED_IN = {  # by the chart, from `name`, the namespace of the release, `shards` and names of Secrets
    "scheduling.shard.enabled",
    "scheduling.shard.nodePoolLabelKey",
    "scheduling.shard.partitionLabelValue",
    "leaderElection.leaseName",
    "leaderElection.leaseNamespace",
    "webhook.configurationName",
    "webhook.certificates.namespace",
    "webhook.certificates.secretName",
    "webhook.certificates.serviceName",
    "webhook.certificates.source",
    "webhook.certificates.folder",
    "observability.metricsTokenFile",
    "dashboard.host",
    "dashboard.access",
}


def _object(properties: Raw, required: Iterable[str]) -> Raw:
    needed = list(required)
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": needed} if needed else {}),
    }


def _whole(**properties: Raw) -> Raw:
    return _object(properties, properties)


_READ_OF_ITEMS = {"grouping.kinds": ("apiVersion", "kind", "resource")}
_TYPES = {bool: "boolean", int: "integer", str: "string"}
_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_OWN: Raw = {  # of the chart alone
    "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63 - len("-webhook")},
    "namespace": _whole(create={"type": "boolean"}),
    "image": _whole(
        repository={"type": "string", "minLength": 1},
        tag={"type": "string"},
        digest={"type": "string", "pattern": "^$|^sha256:[0-9a-f]{64}$"},
        pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
    ),
    "replicas": {"type": "integer", "minimum": 0},
    "shards": {  # a part of names of 63 characters
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 24},
    },
    "nodePoolLabelKey": {"type": "string", "minLength": 1},
    "priorityClassName": {"type": "string", "pattern": f"^$|{_NAME}"},
    "resources": {"type": "object"},
    "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
    "tolerations": {"type": "array", "items": {"type": "object"}},
    "certificatesSecret": {"type": "string", "pattern": f"^$|{_NAME}"},
    "metricsTokenSecret": {"type": "string", "pattern": f"^$|{_NAME}"},
    "priorityClasses": _whole(create={"type": "boolean"}),
    "networkPolicy": _whole(
        enabled={"type": "boolean"},
        webhookFrom={"type": "array", "items": {"type": "object"}},
        metricsFrom={"type": "array", "items": {"type": "object"}},
        dashboardFrom={"type": "array", "items": {"type": "object"}},
    ),
    "serviceMonitor": _whole(
        enabled={"type": "boolean"}, interval={"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
    ),
    "prometheusRule": _whole(enabled={"type": "boolean"}),
    "grafanaDashboard": _whole(enabled={"type": "boolean"}),
}


def schema(values: Raw) -> Raw:
    """Of the whole of values.yaml."""
    parts = {**_OWN, "config": _section(settings.Config, values["config"], "")}
    shared: Raw = {"type": "object", "description": "Of the chart that this one is a part of; not read."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_object({**{key: parts[key] for key in values}, "global": shared}, values),
    }


def _section(kind: type[Wire], values: Raw, at: str) -> Raw:
    properties = {}
    for field in msgspec.structs.fields(kind):
        where = f"{at}.{field.encode_name}".lstrip(".")
        if where not in FILLED_IN and where != "scheduling.shard":
            inner = settings.struct_of(field)
            properties[field.encode_name] = (
                _section(inner, values.get(field.encode_name, {}), where) if inner else _setting(field, where)
            )
    return _object(properties, values)


def _setting(field: msgspec.structs.FieldInfo, where: str) -> Raw:
    (note,) = settings.notes_of(field)
    kind = get_args(field.type)[0]
    limits = dict(note.extra_json_schema or {})
    if where == "scheduling.schedulerNames":
        del limits["minItems"]  # empty: the chart's name
    schema: Raw = {"type": _TYPES[kind]} if kind in _TYPES else {"type": "array", "items": _item(field, where)}
    return {"description": note.description, **schema, **limits}


def _item(field: msgspec.structs.FieldInfo, where: str) -> Raw:
    """Of a list: sections, or names. What the chart itself reads of a section must be there."""
    if inner := settings.item_struct_of(field):
        return _section(inner, dict.fromkeys(_READ_OF_ITEMS[where]), where)
    return {"type": "string", **(settings.LABEL if where == "scheduling.namespaces" else settings.NAME)}
