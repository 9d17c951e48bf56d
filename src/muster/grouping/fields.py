"""Reads plain values of owners: the functions of `api.fields`, under the name that the kinds' rules use."""

from muster.api.fields import at, integer, items, mapping, number, text, texts

__all__ = ["at", "integer", "items", "mapping", "number", "text", "texts"]
