"""Objects as rows of a `Table`, or as partial metadata."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from muster.embedded.rest.responses import status_error
from muster.embedded.rest.table.printer_columns import Cell, Column
from muster.kube.cluster import Raw

Include = Literal["Metadata", "Object", "None"]


def parse_include(text: str) -> Include:
    """The value of `includeObject`: what each row holds of its object; ApiError 400 for others."""
    match text or "Metadata":
        case "Metadata":
            return "Metadata"
        case "Object":
            return "Object"
        case "None":
            return "None"
        case value:
            raise status_error(400, f"includeObject must be None, Metadata or Object, not `{value[:60]}`")


def to_table(
    columns: Sequence[Column],
    objects: Sequence[Raw],
    now: datetime,
    *,
    include_object: Include = "Metadata",
    version: str = "v1",
    metadata: Raw | None = None,
    with_definitions: bool = True,
) -> Raw:
    """A `Table`; without column definitions it continues an earlier one, as in a watch."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata or {},
        "columnDefinitions": [_column_definition(column) for column in columns] if with_definitions else None,
        "rows": [_row(columns, raw, now, include_object, version) for raw in objects],
    }


def partial_metadata(raw: Raw, version: str = "v1") -> Raw:
    """The PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": raw.get("metadata", {}),
    }


def partial_metadata_list(objects: Sequence[Raw], metadata: Raw, version: str = "v1") -> Raw:
    """The PartialObjectMetadataList of objects."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": [partial_metadata(raw, version) for raw in objects],
    }


def _column_definition(column: Column) -> Raw:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _cell(column: Column, raw: Raw, now: datetime) -> Cell:
    """One cell; empty where the object is malformed: built-in kinds have no complete schema."""
    try:
        return column.cell(raw, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _row(columns: Sequence[Column], raw: Raw, now: datetime, include_object: Include, version: str) -> Raw:
    cells = [_cell(column, raw, now) for column in columns]
    match include_object:
        case "Metadata":
            return {"cells": cells, "object": partial_metadata(raw, version)}
        case "Object":
            return {"cells": cells, "object": raw}
        case "None":
            return {"cells": cells}
