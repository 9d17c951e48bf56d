"""`muster crds`: print the CustomResourceDefinitions."""

import click

from muster.cli import options, printing
from muster.validation.crds import crds


@click.command("crds")
@options.output("yaml", "json")
def command(form: str) -> int:
    """Print the CustomResourceDefinitions of PodGroup, Queue and Topology, to install in a cluster.

    \b
    Examples:
      muster crds | kubectl apply --server-side -f -
    """
    printing.emit_list(form, crds())
    return 0
