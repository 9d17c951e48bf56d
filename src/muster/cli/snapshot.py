"""`muster snapshot`: a live cluster into files that every reading verb takes."""

from pathlib import Path

import click

from muster.api.codec import to_yaml
from muster.cli import live, wire
from muster.cluster.store import Raw

NOISE = ("managedFields", "selfLink")


@click.command("snapshot")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@wire.cluster
def command(folder: Path) -> int:
    """Capture a live cluster into files: one for each kind, for `muster plan FOLDER` and every other reading verb.

    Only kinds that planning reads are captured: nodes, pods, PodGroups, queues, topologies and a few more. No secrets.

    \b
    Examples:
      muster snapshot cluster/ --context production
      muster plan cluster/ new-workload.yaml
    """
    folder.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, list[Raw]] = {}
    for document in live.documents(*wire.target()):
        kinds.setdefault(document.where.partition("/")[0], []).append(_bare(document.raw))
    for kind, found in sorted(kinds.items()):
        path = folder / f"{kind}.yaml"
        path.write_text(to_yaml(found), encoding="utf-8")
        click.echo(f"{path}: {len(found)}")
    return 0


def _bare(raw: Raw) -> Raw:
    """Without what only the API server reads."""
    return raw | {"metadata": {name: value for name, value in raw["metadata"].items() if name not in NOISE}}
