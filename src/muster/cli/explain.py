"""`muster explain`: why a gang waits."""

import click

from muster import facade
from muster.cli import assemble
from muster.errors import InputError
from muster.reporting import plans


@click.command("explain")
@click.argument("key", metavar="NAMESPACE/NAME")
@assemble.some_files
@assemble.cluster
@assemble.output("table", "json", "yaml")
@assemble.scheduler_names
@assemble.max_file_mib
def command(key: str, files: tuple[str, ...], form: str, schedulers: tuple[str, ...], max_file_mib: int) -> int:
    """Why a gang waits, or why it sits where it sits, and what would help.

    \b
    Examples:
      muster explain inference/dynamo cluster/ workloads/
    """
    decided = facade.plan(assemble.load(files, max_file_mib), facade.Policy(scheduler_names=schedulers))
    try:
        found = decided.decided.gang(key)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None
    if form == "table":
        assemble.show(plans.gang_lines(found))
    else:
        whole = decided.to_dict()["podGroups"]
        (mine,) = [one for one in whole if f"{one['namespace']}/{one['name']}" == key]
        assemble.emit(form, "Explanation", mine)
    return 0
