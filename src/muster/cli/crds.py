"""`muster crds`: print the CustomResourceDefinitions."""

import click

from muster.cli import options, printing
from muster.validation.crds import crds, own_crds


@click.command("crds")
@click.option(
    "--without-grove", is_flag=True, help="Leave out PodCliqueSet and the like: Grove's own operator installs them."
)
@options.output("yaml", "json")
def command(form: str, without_grove: bool) -> int:
    """Print the CustomResourceDefinitions to install in a cluster: PodGroup, Queue, Topology, and Grove's kinds.

    \b
    Examples:
      muster crds | kubectl apply --server-side -f -
      muster crds --without-grove | kubectl apply --server-side -f -
    """
    printing.emit_list(form, own_crds() if without_grove else crds())
    return 0
