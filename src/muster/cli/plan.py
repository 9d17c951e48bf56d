"""`muster plan`: one scheduling cycle on files, as they are and under what-if changes."""

from collections.abc import Callable, Iterable
from typing import Any

import click

from muster import facade
from muster.cli import inputs, options, printing
from muster.config.settings import Config
from muster.grouping.manifests.settings import GroupingSettings
from muster.planning.policy import Policy
from muster.planning.whatif import setting
from muster.reporting.text import Line
from muster.validation.pods.membership import orphans

SUPPOSITIONS = (
    click.option(
        "--with",
        "with_files",
        multiple=True,
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="What if these objects existed? They replace objects of the same kind and name. Workloads count with "
        "the pods that they will have.",
    ),
    click.option(
        "--without", multiple=True, metavar="NAMESPACE/NAME", help="What if this gang and its pods were gone?"
    ),
    click.option(
        "--drain",
        multiple=True,
        metavar="NODE",
        help="What if this node were drained? Pods of gangs on it become pending, others are gone.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAMESPACE/NAME.FIELD=VALUE",
        help="What if this field of a PodGroup changed? FIELD is a path in its spec; empty unsets it. queue/NAME is a "
        "Queue: priority, or RESOURCE.quota, .limit, .overQuotaWeight.",
    ),
)


def suppositions(command: Callable[..., Any]) -> Callable[..., Any]:
    """The what-if options."""
    for option in reversed(SUPPOSITIONS):
        command = option(command)
    return command


@click.command("plan")
@options.some_files
@options.cluster
@suppositions
@options.output("table", "json", "yaml")
@click.option(
    "--require-all",
    is_flag=True,
    help="Exit with 1 unless every gang is scheduled and every pod of a workload has one, after the what-if changes if "
    "any.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=Policy().steps,
    show_default=True,
    help="Budget of steps for one gang's search.",
)
@options.configured
@options.max_file_mib
def command(
    files: tuple[str, ...],
    form: str,
    require_all: bool,
    steps: int,
    config: Config,
    max_file_mib: int,
    **supposed: tuple[str, ...],
) -> int:
    """Run one scheduling cycle on files or a live cluster, and change nothing.

    Prints each gang as a tree with its verdict and domains, and the cluster as a map of pods on nodes. Workloads such
    as Jobs, LeaderWorkerSets or PyTorchJobs are planned with the PodGroups and pods that they will have; `muster group`
    shows these.

    --with, --without, --set and --drain ask what if; each is repeatable, and they apply in this order. Prints the plan
    before and after, which gangs and pods differ, and why a gang is worse off. A change that the cluster would refuse
    is an error, as from `muster validate`.

    \b
    Examples:
      muster plan cluster/ workloads/dynamo.yaml
      muster plan -o json cluster/ workloads/ | jq .bindings
      muster plan --require-all cluster/ new-workload.yaml
      muster plan cluster/ leaderworkerset.yaml

    \b
    What if:
      muster plan --with new-workload.yaml cluster/ workloads/
      muster plan --without team-a/llama cluster/ workloads/
      muster plan --drain node-7 --drain node-8 --require-all cluster/ workloads/
      muster plan --set team-a/llama.minSubGroup=2 cluster/ workloads/
      muster plan --set team-a/llama.subGroups.decode.minMember=2 cluster/ workloads/
      muster plan --set queue/team-a.gpu.quota=64 cluster/ workloads/
      muster plan --set team-a/llama.topologyConstraint.requiredTopologyLevel=zone cluster/ workloads/
    """
    schedulers, grouping = config.scheduling.scheduler_names, inputs.grouping_settings(config)
    policy = Policy(scheduler_names=schedulers, shard=config.scheduling.shard.chosen, steps=steps)
    if any(supposed.values()):
        what_if = _what_if(files, policy, grouping, max_file_mib, **supposed)
        _print(form, what_if.lines(), what_if.to_dict)
        decided, objects, grouped = what_if.after.decided, what_if.supposed.objects, what_if.grouped
    else:
        grouped = inputs.load_grouped(files, max_file_mib, grouping)
        objects = grouped.objects
        planned = facade.plan(objects, policy, grouping=grouping)
        decided = planned.decided
        _print(form, planned.lines(), planned.to_dict)
    inputs.note_orphans(orphans(objects, schedulers))
    is_complete = not grouped.ungrouped and all(gang.verdict == "Scheduled" for gang in decided.gangs)
    return 1 if require_all and not is_complete else 0


def _print(form: str, lines: Iterable[Line], data: Callable[[], dict[str, Any]]) -> None:
    if form == "table":
        printing.show(lines)
    else:
        printing.emit_object(form, data())


def _what_if(
    files: tuple[str, ...],
    policy: Policy,
    grouping: GroupingSettings,
    max_file_mib: int,
    with_files: tuple[str, ...],
    without: tuple[str, ...],
    drain: tuple[str, ...],
    settings: tuple[str, ...],
) -> facade.WhatIf:
    more = inputs.load_files(with_files, max_file_mib, grouping) if with_files else None
    changes = dict(map(setting, settings))
    has_workloads = more is not None and bool(more.others)
    loaded = inputs.load_with_owners(files, max_file_mib, grouping, reads_all=has_workloads)
    what_if = facade.what_if(
        loaded.objects,
        with_=more,
        without=without,
        drain=drain,
        set=changes,
        policy=policy,
        grouping=loaded.settings,
    )
    inputs.note_workloads(what_if.grouped, policy.scheduler_names)
    for warning in what_if.warnings:
        printing.note(warning)
    return what_if
