"""`muster group`: which PodGroups workloads get, and why."""

import click

from muster.cli import inputs, options, printing
from muster.config.settings import Config
from muster.planning.grove.grouped_sets import group_workloads
from muster.reporting import grouping


@click.command("group")
@options.some_files
@options.cluster
@options.output("table", "json", "yaml")
@options.configured
@options.max_file_mib
def command(files: tuple[str, ...], form: str, config: Config, max_file_mib: int) -> int:
    """Show which PodGroups workloads get, which rule chose them, and where each minimum comes from.

    Reads Jobs, Deployments, LeaderWorkerSets, JobSets, PyTorchJobs, RayClusters and others as `muster run` does in a
    cluster. Pods that do not exist yet are made from the templates. Changes nothing.

    -o yaml prints the PodGroups as manifests, -o json every tree with its sources. Exits with 1 if a pod cannot be
    grouped, and says why.

    \b
    Examples:
      muster group leaderworkerset.yaml
      muster group -o yaml pytorchjob.yaml
      muster group --config muster.yaml simulation.yaml
      muster group --context production
      kubectl get jobs,pods -n team-a -o json | muster group -
    """
    settings = inputs.grouping_settings(config)
    loaded = inputs.load_with_owners(files, max_file_mib, settings, reads_all=True)
    grouped = group_workloads(loaded.objects, loaded.settings)
    match form:
        case "table":
            printing.show(grouping.lines(grouped))
        case "json":
            printing.emit(form, "Grouping", grouping.data(grouped))
        case _:
            printing.emit_list(form, grouping.manifests(grouped))
            for text in grouping.ungrouped_notes(grouped):
                printing.note(text)
    for text in grouping.notes(grouped, settings.schedulers):
        printing.note(text)
    if not grouped.gangs and not grouped.ungrouped:
        printing.note(f"there are no pods to group {options.source_phrase()}")
    return 1 if grouped.ungrouped else 0
