"""`muster run`: the control plane against a Kubernetes cluster."""

from pathlib import Path

import click
from msgspec.structs import replace

from muster.cli.assemble.control_plane import run_control_plane
from muster.config import loading
from muster.config.settings import Config


@click.command("run")
@click.option("--config", "path", type=click.Path(path_type=Path, dir_okay=False), help="One file with every setting.")
@click.option("--kubeconfig", type=click.Path(), help="Which cluster; unset: $KUBECONFIG, or the one it runs in.")
@click.option("--context", help="A context of the kubeconfig; unset: the current one.")
@click.option("--dry-run", is_flag=True, help="Plan and log, but write nothing.")
def command(path: Path | None, kubeconfig: str | None, context: str | None, dry_run: bool) -> int:
    """Run the control plane against a Kubernetes cluster, until SIGTERM or Ctrl-C.

    \b
    Examples:
      muster run --kubeconfig ~/.kube/config --dry-run
      muster run --config /etc/muster/config.yaml
    """
    settings = loading.load(path) if path else Config()
    if dry_run:
        settings = replace(settings, scheduling=replace(settings.scheduling, dry_run=True))
    run_control_plane(settings, kubeconfig, context)
    return 0
