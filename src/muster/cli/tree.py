"""`muster tree`: draw gangs."""

from collections.abc import Iterator

import click

from muster.api.objects import Objects, key
from muster.api.podgroup import PodGroup
from muster.cli import inputs, options, pod_clique_sets, printing
from muster.config.settings import Config
from muster.control_characters import visible
from muster.errors import Refused
from muster.model.gang.builder import collect_gangs
from muster.reporting import views
from muster.reporting.text import Line
from muster.validation import podgroup


@click.command("tree")
@click.argument("arguments", nargs=-1, metavar="[pcs/NAMESPACE/NAME] [FILE…]", type=click.Path(allow_dash=True))
@options.cluster
@options.output("table", "json", "yaml", "mermaid")
@options.configured
@options.max_file_mib
def command(arguments: tuple[str, ...], form: str, config: Config, max_file_mib: int) -> int:
    """Draw gangs as trees: each level with its minimum, its placed pods, its domain, and what is core or optional.

    Pods in the files join their gangs; a note names pods whose PodGroup does not exist. Workloads such as Jobs,
    LeaderWorkerSets or PyTorchJobs are drawn with the PodGroups and pods that they will have.

    pcs/NAMESPACE/NAME draws one PodCliqueSet of Grove: its replicas, gangs, cliques and pods, with gates and reasons.

    \b
    Examples:
      muster tree podgroup.yaml
      muster tree podgroup.yaml pods/
      muster tree pytorchjob.yaml
      muster tree -o mermaid podgroup.yaml
      muster tree pcs/inference/llm podcliqueset.yaml
      muster tree pcs/inference/llm --context production
      kubectl get podgroups,pods -n team-a -o json | muster tree -
    """
    named, files = pod_clique_sets.split(arguments)
    if named is not None:
        return pod_clique_sets.show_tree(named, files, form, config, max_file_mib)
    objects = inputs.load_grouped(files, max_file_mib, inputs.grouping_settings(config)).objects
    _refuse_broken(objects)
    collected = collect_gangs(objects, config.scheduling.scheduler_names)
    shard = config.scheduling.shard.chosen
    own = [gang for gang in collected.gangs if shard is None or shard.has(gang.source.metadata.labels)]
    seen = [views.inspect_gang(gang) for gang in own]
    if not seen:
        printing.note(f"there are no PodGroups {options.source_phrase()}")
    orphans = [stray for stray in collected.orphans if stray.why == "NoSuchPodGroup"]
    match form:
        case "table":
            printing.show(_separate(seen))
        case "mermaid":
            printing.print_lines(line for gang in seen for line in views.mermaid(gang))
        case _:
            foreign = [{"pod": stray.pod, "reason": stray.why, "message": stray.says} for stray in orphans]
            printing.emit(form, "Trees", {"podGroups": [views.data(gang) for gang in seen], "foreign": foreign})
    inputs.note_orphans(orphans)
    return 0


def _refuse_broken(objects: Objects) -> None:
    """Refuse a PodGroup without a valid tree; note one that is in an older form."""
    for group in objects.pod_groups:
        problems = list(podgroup.judge(group.spec, podgroup.FORM))
        broken = list(podgroup.judge(group.spec, podgroup.TREE))
        if broken:
            lines = "\n".join(visible(f"  {problem.at}: {problem.says}") for problem in broken)
            raise Refused(f"podgroup `{key(group.metadata)}` cannot be drawn\n{lines}", hint=broken[0].hint)
        if problems:
            _note_older(group, problems[0].at)


def _note_older(group: PodGroup, at: str) -> None:
    printing.note(f"podgroup `{key(group.metadata)}` is not in the form of record ({at}); `muster validate` shows more")


def _separate(gangs: list[views.GangView]) -> Iterator[Line]:
    for i, gang in enumerate(gangs):
        if i:
            yield []
        yield from views.draw_tree(gang)
