"""`muster topology`: the cluster by domain."""

from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from muster.api.quantity import format_amount
from muster.cli import inputs, options, printing
from muster.model.snapshot import EXCLUSIVE, Snapshot, take
from muster.model.topology import TopologyTree
from muster.reporting.text import Line, Span, table


@click.command("topology")
@options.some_files
@options.cluster
@options.output("table", "json", "yaml")
@options.max_file_mib
def command(files: tuple[str, ...], form: str, max_file_mib: int) -> int:
    """Show the cluster by topology domain: nodes, and free of allocatable resources.

    \b
    Examples:
      muster topology cluster/
      muster topology --context production
    """
    snapshot = take(inputs.load(files, max_file_mib))
    if not snapshot.topologies:
        printing.note(f"there are no Topologies {options.source_phrase()}")
    if form == "table":
        printing.show(line for tree in snapshot.topologies.values() for line in _lines(tree, snapshot))
    else:
        topologies = [
            {"name": name, "domains": list(_data(tree, snapshot))} for name, tree in snapshot.topologies.items()
        ]
        printing.emit(form, "Domains", {"topologies": topologies})
    return 0


def _lines(tree: TopologyTree, snapshot: Snapshot) -> Iterator[Line]:
    levels = " > ".join(level.label for level in tree.levels)
    yield [Span(tree.topology.metadata.name, "name"), Span(f"  {levels}", "dim")]
    rows = [[Span(text, "dim") for text in ("DOMAIN", "NODES", "FREE")]]
    for domain in _data(tree, snapshot):
        depth = domain["path"].count("/")
        free = ", ".join(f"{free} of {allocatable} {name}" for name, (free, allocatable) in domain["resources"].items())
        rows.append(
            [Span("  " * depth + domain["path"].rsplit("/", 1)[-1], "name"), Span(str(domain["nodes"])), Span(free)]
        )
    yield from table(rows)


def _data(tree: TopologyTree, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Every domain, parents before children; the finest level only where it holds several nodes."""
    shown = [i for i, c in enumerate(snapshot.columns) if c != "pods" and not c.startswith(EXCLUSIVE)]
    free = np.maximum(snapshot.free, 0)
    domains = []
    for i, level in enumerate(tree.levels):
        for domain, path in enumerate(level.paths):
            nodes = level.nodes(domain)
            amounts = {
                snapshot.columns[c]: (
                    format_amount(snapshot.columns[c], int(free[nodes, c].sum())),
                    format_amount(snapshot.columns[c], int(snapshot.allocatable[nodes, c].sum())),
                )
                for c in shown
                if snapshot.allocatable[nodes, c].any()
            }
            domains.append({"path": path, "level": tree.levels[i].label, "nodes": len(nodes), "resources": amounts})
    yield from sorted(domains, key=lambda domain: str(domain["path"]).split("/"))
