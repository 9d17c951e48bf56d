"""`muster queues`: quotas, fair shares and usage."""

from collections import defaultdict

import click

from muster.cli import inputs, options, printing
from muster.config.settings import Config
from muster.fairness.entitlement import Closed, why_closed
from muster.fairness.shares import divide_cluster
from muster.model.queues import QueueTree
from muster.model.snapshot import Snapshot, take
from muster.reporting import queues
from muster.validation.problem import listed

WORDS: dict[Closed, str] = {
    "QueueDoesNotExist": "does not exist",
    "QueueNotInTree": "is in no tree",
    "QueueNotALeaf": "has queues below it",
}


@click.command("queues")
@options.some_files
@options.cluster
@options.output("table", "json", "yaml")
@options.configured
@options.max_file_mib
def command(files: tuple[str, ...], form: str, config: Config, max_file_mib: int) -> int:
    """Show the queues as a tree: quota, limit, fair share, allocated, protected and requested, by resource.

    Without any Queue there is one, `default`, without limits.

    \b
    Examples:
      muster queues cluster/ workloads/
      muster queues -o json cluster/ | jq '.queues[] | {name, gpu: .resources["nvidia.com/gpu"].fairShare}'
      kubectl get queues,nodes,podgroups,pods -A -o json | muster queues -
    """
    grouped = inputs.load_grouped(files, max_file_mib, inputs.grouping_settings(config))
    snapshot = take(grouped.objects, schedulers=config.scheduling.scheduler_names, shard=config.scheduling.shard.chosen)
    if not snapshot.nodes:
        printing.note(f"there are no Nodes {options.source_phrase()}, so there is nothing to share")
    divided = divide_cluster(snapshot)
    if form == "table":
        printing.show(queues.lines(divided))
    else:
        printing.emit(form, "Queues", queues.data(divided))
    _note_closed(snapshot, divided.tree)
    return 0


def _note_closed(snapshot: Snapshot, tree: QueueTree) -> None:
    """PodGroups that wait because of the queue they name (Q1, Q2)."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for gang in snapshot.gangs:
        if why_closed(tree, gang.queue):
            waiting[gang.queue].append(gang.key)
    for queue, gangs in sorted(waiting.items()):
        printing.note(f"queue `{queue}` {WORDS[why_closed(tree, queue)]}, but PodGroups name it: {listed(gangs)}")
