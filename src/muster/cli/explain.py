"""`muster explain`: why a gang waits."""

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
    """Why a gang waits, or why it sits where it sits, and what would help.

    \b
    Examples:
      muster explain inference/dynamo cluster/ workloads/
    """
    decided = facade.plan(inputs.load(files, max_file_mib), facade.Policy(scheduler_names=schedulers))
    try:
        found = decided.decided.gang(key)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None
    if form == "table":
        printing.show(plans.gang_lines(found))
    else:
        whole = decided.to_dict()["podGroups"]
        (mine,) = [one for one in whole if f"{one['namespace']}/{one['name']}" == key]
        printing.emit(form, "Explanation", mine)
    return 0
