"""Output of verbs: data on stdout, notes on stderr."""

import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from muster.api import codec
from muster.api.names import OURS
from muster.reporting.text import Line, Role, plain

COLOURS: dict[Role, str] = {"name": "bold", "good": "green", "bad": "red", "warn": "yellow", "dim": "bright_black"}


def note(text: str) -> None:
    """Print a note on stderr, beside the data."""
    click.echo(f"note: {text}", err=True)


def show(lines: Iterable[Line]) -> None:
    """Print lines for people: in colour on a terminal, unless NO_COLOR is set."""
    if not (sys.stdout.isatty() and not os.environ.get("NO_COLOR")):
        if text := plain(lines):
            click.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((span.text, COLOURS.get(span.role, "")) for span in line)))


def emit(form: str, kind: str, fields: dict[str, Any]) -> None:
    """Print data for programs, under muster's own apiVersion and this kind."""
    emit_object(form, {"apiVersion": OURS, "kind": kind, **fields})


def emit_object(form: str, value: dict[str, Any]) -> None:
    """Print data that brings its own apiVersion and kind."""
    click.echo(codec.to_yaml([value]) if form == "yaml" else codec.to_json(value), nl=form != "yaml")


def emit_list(form: str, raws: list[Any]) -> None:
    """Print Kubernetes objects: YAML documents, or in JSON a List."""
    if form == "yaml":
        click.echo(codec.to_yaml(raws), nl=False)
    else:
        click.echo(codec.to_json({"apiVersion": "v1", "kind": "List", "items": raws}))
