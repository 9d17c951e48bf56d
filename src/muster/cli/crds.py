"""`muster crds`: print the CRDs."""

import click

from muster.api import codec
from muster.cli import assemble
from muster.validation.crds import crds


@click.command("crds")
@assemble.output("yaml", "json")
def command(form: str) -> int:
    """Print the CRDs of PodGroup, Queue and Topology.

    \b
    Examples:
      muster crds | kubectl apply --server-side -f -
    """
    made = crds()
    if form == "yaml":
        click.echo(codec.to_yaml(made), nl=False)
    else:
        click.echo(codec.to_json({"apiVersion": "v1", "kind": "List", "items": made}))
    return 0
