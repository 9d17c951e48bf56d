"""`muster explain`: why a gang waits, or why it is where it is."""

import click

from muster import facade
from muster.cli import inputs, options, printing
from muster.errors import InputError
from muster.reporting import plans


@click.command("explain")
@click.argument("key", metavar="NAMESPACE/NAME")
@options.some_files
@options.cluster
@options.output("table", "json", "yaml")
@options.scheduler_names
@options.max_file_mib
def command(key: str, files: tuple[str, ...], form: str, schedulers: tuple[str, ...], max_file_mib: int) -> int:
    """Explain why a gang waits, or why it is placed where it is, and what would help.

    NAMESPACE/NAME is its PodGroup. Files and live clusters are read as by `muster plan`.

    \b
    Examples:
      muster explain inference/dynamo cluster/ workloads/
      muster explain inference/dynamo --context production
    """
    decided = facade.plan(inputs.load(files, max_file_mib), facade.Policy(scheduler_names=schedulers))
    try:
        gang = decided.decided.gang(key)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None
    if form == "table":
        printing.show(plans.gang_lines(gang))
    else:
        gangs = decided.to_dict()["podGroups"]
        (data,) = [raw for raw in gangs if f"{raw['namespace']}/{raw['name']}" == key]
        printing.emit(form, "Explanation", data)
    return 0
