"""`muster explain`: why a gang waits, or why it is where it is."""

import click

from muster import facade
from muster.api.objects import key as object_key
from muster.cli import inputs, options, pod_clique_sets, printing
from muster.config.settings import Config
from muster.errors import InputError
from muster.grouping.manifests.types import GroupedObjects
from muster.reporting import plans
from muster.validation.problem import listed


@click.command("explain")
@click.argument("key", metavar="[pcs/]NAMESPACE/NAME")
@options.some_files
@options.cluster
@options.output("table", "json", "yaml")
@options.configured
@options.max_file_mib
def command(key: str, files: tuple[str, ...], form: str, config: Config, max_file_mib: int) -> int:
    """Explain why a gang waits, or why it is placed where it is, and what would help.

    NAMESPACE/NAME is its PodGroup, or a workload that has one; pcs/NAMESPACE/NAME is a PodCliqueSet of Grove with all
    of its gangs. Files and live clusters are read as by `muster plan`.

    \b
    Examples:
      muster explain inference/dynamo cluster/ workloads/
      muster explain team-a/train cluster/ pytorchjob.yaml
      muster explain inference/dynamo --context production
      muster explain pcs/inference/llm cluster/ podcliqueset.yaml
    """
    if (named := pod_clique_sets.parse(key)) is not None:
        return pod_clique_sets.show_explanation(named, files, form, config, max_file_mib)
    settings = inputs.grouping_settings(config)
    grouped = inputs.load_grouped(files, max_file_mib, settings)
    policy = facade.Policy(scheduler_names=config.scheduling.scheduler_names)
    decided = facade.plan(grouped.objects, policy, grouping=settings)
    key = _pod_group(grouped, key)
    try:
        gang = decided.decided.gang(key)
    except KeyError as error:
        raise InputError(str(error.args[0])) from None
    if form == "table":
        printing.show(plans.gang_lines(gang, decided.scaled.get(key)))
    else:
        gangs = decided.to_dict()["podGroups"]
        (data,) = [raw for raw in gangs if f"{raw['namespace']}/{raw['name']}" == key]
        printing.emit(form, "Explanation", data)
    return 0


def _pod_group(grouped: GroupedObjects, key: str) -> str:
    """The PodGroup of a workload by this name; the key itself where there is none or a PodGroup has it."""
    gangs = [gang.key for gang in grouped.gangs if f"{gang.workload.namespace}/{gang.workload.name}" == key]
    if not gangs or any(key == object_key(group.metadata) for group in grouped.objects.pod_groups):
        return key
    if len(gangs) > 1:
        raise InputError(f"`{key}` has {len(gangs)} PodGroups", hint=f"name one of them: {listed(gangs)}")
    return gangs[0]
