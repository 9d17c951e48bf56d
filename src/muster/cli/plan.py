"""`muster plan`: one scheduling cycle on files."""

import click

from muster import facade
from muster.cli import wire
from muster.planning.policy import Policy
from muster.reporting import plans


@click.command("plan")
@wire.files
@wire.output("table", "json", "yaml")
@click.option("--require-all", is_flag=True, help="Exit with 1 unless every gang is scheduled.")
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=Policy().steps,
    show_default=True,
    help="What one gang's search may cost.",
)
@wire.max_file_mib
def command(files: tuple[str, ...], form: str, require_all: bool, steps: int, max_file_mib: int) -> int:
    """One scheduling cycle on the objects in the files; nothing is changed anywhere.

    Shows every gang as a tree with its verdict and domains, and the cluster as a map of who sits where.

    \b
    Examples:
      muster plan cluster/ workloads/dynamo.yaml
      muster plan -o json cluster/ workloads/ | jq .bindings
      muster plan --require-all cluster/ new-workload.yaml
    """
    decided = facade.plan(wire.load(files, max_file_mib), Policy(steps=steps))
    if form == "table":
        wire.show(plans.lines(decided.decided, decided.snapshot))
    else:
        wire.emit_whole(form, decided.to_dict())
    unscheduled = any(found.verdict != "Scheduled" for found in decided.decided.gangs)
    return 1 if require_all and unscheduled else 0
