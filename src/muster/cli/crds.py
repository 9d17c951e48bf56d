"""`muster crds`: print the CRDs."""

import click

from muster.cli import options, printing
from muster.validation.crds import crds


@click.command("crds")
@options.output("yaml", "json")
def command(form: str) -> int:
    """Print the CRDs of PodGroup, Queue and Topology.

    \b
    Examples:
      muster crds | kubectl apply --server-side -f -
    """
    printing.emit_list(form, crds())
    return 0
