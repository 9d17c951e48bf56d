"""Writes a report as one HTML file. The parts of the page are data of this package, and constants like any other.

Rule 1: the file names no address and loads nothing; its security policy allows only its own script and style.
Rule 2: what comes from a simulation is in one JSON element, and the page sets it as text, never as markup.
"""

import base64
import hashlib
import html
import re
from functools import cache
from importlib.resources import files

import msgspec

from muster.control_characters import visible
from muster.reporting.simulation.payload import describe
from muster.reporting.simulation.report import SimulationReport

SCRIPTS = (
    "format.js",
    "elements.js",
    "chart.js",
    "timelines.js",
    "waits.js",
    "heat.js",
    "gangs.js",
    "compare.js",
    "main.js",
)
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(report: SimulationReport) -> str:
    """The report as one HTML file that needs nothing else."""
    script = "\n".join(read_part(name) for name in SCRIPTS)
    parts = {
        "title": html.escape(visible(report.title)),
        "policy": _policy(script, read_part("style.css")),
        "style": read_part("style.css"),
        "script": script,
        "data": embed_json(describe(report)),
    }
    return _PLACE.sub(lambda place: parts[place.group(1)], read_part("page.html"))


def embed_json(value: object) -> str:
    """JSON that is safe inside a script element: no character of it can end the element or open a comment."""
    text = msgspec.json.encode(value).decode()
    return re.sub("[<>&\u2028\u2029]", lambda match: _UNSAFE[match.group()], text)


def _policy(script: str, style: str) -> str:
    return f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}"


def _source(text: str) -> str:
    """The one inline text that a browser may apply."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def read_part(name: str) -> str:
    """A part of the page."""
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")
