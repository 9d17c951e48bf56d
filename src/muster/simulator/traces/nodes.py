"""Nodes of a CSV file, spread over the domains of a topology in the order of the file."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec.structs import asdict

from muster.api.names import HOSTNAME
from muster.errors import InputError
from muster.kube.cluster import Raw
from muster.simulator.datacenter import GPU, domain_labels
from muster.simulator.scenario.types import NodeColumns, NodesFile, Units
from muster.simulator.traces.csv_table import CsvRow, read_rows
from muster.simulator.traces.formats import BYTES, CPU_MILLI, GPU_MODEL, node_columns
from muster.simulator.traces.naming import Namer

MOST_NODES = 100_000


def read_nodes(nodes: NodesFile, folder: Path, domains_by_level: Mapping[str, int]) -> Iterator[Raw]:
    """The nodes of a file."""
    columns, units = node_columns(nodes)
    rows = list(islice(read_rows(folder / nodes.file, asdict(columns).values()), MOST_NODES + 1))
    if len(rows) > MOST_NODES:
        raise InputError(f"{rows[-1].source}, line {rows[-1].line}: there are more than {MOST_NODES:,} nodes")
    namer = Namer("node")
    for i, row in enumerate(rows):
        name = namer.name(row.text(columns.name))
        labels = {HOSTNAME: name, **domain_labels(i, len(rows), domains_by_level)}
        if model := row.text(columns.model):
            labels[GPU_MODEL] = model
        allocatable = _allocatable(row, columns, units)
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": allocatable, "allocatable": allocatable},
        }


def _allocatable(row: CsvRow, columns: NodeColumns, units: Units) -> dict[str, str]:
    cpu, memory, gpu = row.number(columns.cpu), row.number(columns.memory), row.number(columns.gpu)
    amounts = {"pods": "250"}
    if cpu is not None:
        amounts["cpu"] = f"{int(cpu * CPU_MILLI[units.cpu])}m"
    if memory is not None:
        amounts["memory"] = str(int(memory * BYTES[units.memory]))
    if gpu:
        amounts[GPU] = str(int(gpu))
    return amounts
