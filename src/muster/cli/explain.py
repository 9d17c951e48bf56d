"""`muster explain`: why a gang waits, or why it is where it is."""

import click

from muster import facade
from muster.api.objects import Objects
from muster.api.objects import key as object_key
from muster.cli import inputs, options, pod_clique_sets, printing
from muster.config.settings import Config
from muster.errors import InputError
from muster.grouping.manifests.types import GroupedObjects
from muster.reporting import plans
from muster.validation.problem import listed
from muster.validation.shard import Shard


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
    key, shard = _pod_group(grouped, key), config.scheduling.shard.chosen
    _check_shard(grouped.objects, key, shard)
    policy = facade.Policy(scheduler_names=config.scheduling.scheduler_names, shard=shard)
    decided = facade.plan(grouped.objects, policy, grouping=settings)
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


def _check_shard(objects: Objects, key: str, shard: Shard | None) -> None:
    """Refuses a gang of another shard, and says whose it is; without shards, a gang of a pool gets a note."""
    group = next((group for group in objects.pod_groups if object_key(group.metadata) == key), None)
    if group is None:
        return
    of_group = Shard(group.metadata.labels.get((shard or Shard()).label, ""), (shard or Shard()).label)
    words = f"podgroup `{key}` belongs to {of_group.title} (label `{of_group.label}`)"
    if shard is None and not of_group.is_default:
        printing.note(f"{words}; if muster runs in shards, name that shard's configuration with --config")
    elif shard is not None and of_group != shard:
        has_nodes = any(of_group.has(node.metadata.labels) for node in objects.nodes)
        more = "" if has_nodes else f", and no node {options.source_phrase()} does"
        raise InputError(
            f"{words}{more}; this configuration is for {shard.title}",
            hint="name that shard's configuration with --config; where no muster runs for it, the gang waits untouched",
        )


def _pod_group(grouped: GroupedObjects, key: str) -> str:
    """The PodGroup of a workload by this name; the key itself where there is none or a PodGroup has it."""
    gangs = [gang.key for gang in grouped.gangs if f"{gang.workload.namespace}/{gang.workload.name}" == key]
    if not gangs or any(key == object_key(group.metadata) for group in grouped.objects.pod_groups):
        return key
    if len(gangs) > 1:
        raise InputError(f"`{key}` has {len(gangs)} PodGroups", hint=f"name one of them: {listed(gangs)}")
    return gangs[0]
