"""Objects as clients like them: whole, as rows of a `Table`, or their metadata alone."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from muster.embedded.rest.responses import refusal
from muster.embedded.rest.table.printer_columns import Cell, Column
from muster.kube.cluster import Raw

Include = Literal["Metadata", "Object", "None"]


def include(said: str) -> Include:
    """What each row carries of its object; 400 for other words."""
    match said or "Metadata":
        case "Metadata":
            return "Metadata"
        case "Object":
            return "Object"
        case "None":
            return "None"
        case other:
            raise refusal(400, f"includeObject must be None, Metadata or Object, not `{other[:60]}`")


def table(
    columns: Sequence[Column],
    objects: Sequence[Raw],
    now: datetime,
    *,
    carry: Include = "Metadata",
    version: str = "v1",
    metadata: Raw | None = None,
    heads: bool = True,
) -> Raw:
    """A `Table`; without heads it goes on with an earlier one, as in a watch."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata or {},
        "columnDefinitions": [_head(column) for column in columns] if heads else None,
        "rows": [_row(columns, raw, now, carry, version) for raw in objects],
    }


def partial(raw: Raw, version: str = "v1") -> Raw:
    """An object's metadata alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": raw.get("metadata", {}),
    }


def partial_list(objects: Sequence[Raw], metadata: Raw, version: str = "v1") -> Raw:
    """The metadata of many."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": [partial(raw, version) for raw in objects],
    }


def _head(column: Column) -> Raw:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _cell(column: Column, raw: Raw, now: datetime) -> Cell:
    """Built-in kinds have no schema: a cell that makes no sense of an object stays empty, and the table stands."""
    try:
        return column.cell(raw, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _row(columns: Sequence[Column], raw: Raw, now: datetime, carry: Include, version: str) -> Raw:
    cells = [_cell(column, raw, now) for column in columns]
    match carry:
        case "Metadata":
            return {"cells": cells, "object": partial(raw, version)}
        case "Object":
            return {"cells": cells, "object": raw}
        case "None":
            return {"cells": cells}
