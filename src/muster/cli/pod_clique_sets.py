"""`pcs/NAMESPACE/NAME` as an argument of verbs, and what they show of a PodCliqueSet."""

import os
from datetime import UTC, datetime

from msgspec.structs import replace

from muster import facade
from muster.cli import inputs, printing
from muster.config.settings import Config
from muster.errors import InputError
from muster.grouping.manifests.types import GroupedObjects
from muster.model.snapshot import take
from muster.planning.decision import GangPlan
from muster.reporting.grove import set_reports, set_views
from muster.reporting.grove.set_names import SetName, parse_set_name


def parse(word: str) -> SetName | None:
    """The set that an argument names; None: it names something else. InputError: it is incomplete."""
    return None if os.path.lexists(word) else parse_set_name(word)


def split(arguments: tuple[str, ...]) -> tuple[SetName | None, tuple[str, ...]]:
    """The set that the first argument names, and the files."""
    named = parse(arguments[0]) if arguments else None
    return (None, arguments) if named is None else (named, arguments[1:])


def show_tree(named: SetName, files: tuple[str, ...], form: str, config: Config, most_mib: int) -> int:
    """The set as it is now, or as it will be when it is submitted; nothing is planned."""
    grouped = _load(files, config, most_mib)
    scheduling = config.scheduling
    snapshot = take(grouped.objects, datetime.now(UTC), scheduling.scheduler_names, scheduling.shard.chosen)
    gangs = {gang.key: GangPlan(gang, "Waiting", snapshot=snapshot) for gang in snapshot.gangs}
    return _show(
        named,
        form,
        set_reports.SetSituation(
            parts=grouped.parts,
            pods=grouped.objects.pods,
            gangs=gangs,
            schedulers=scheduling.scheduler_names,
        ),
        "SetTree",
    )


def show_explanation(named: SetName, files: tuple[str, ...], form: str, config: Config, most_mib: int) -> int:
    """The set as a plan leaves it, with the reasons of every gang that waits."""
    grouped = _load(files, config, most_mib)
    scheduling = config.scheduling
    policy = facade.Policy(scheduler_names=scheduling.scheduler_names, shard=scheduling.shard.chosen)
    plan = facade.plan(grouped.objects, policy, grouping=inputs.grouping_settings(config))
    situation = replace(plan.set_situation(policy.scheduler_names), parts=grouped.parts)  # they were grouped here
    return _show(named, form, situation, "SetExplanation")


def _load(files: tuple[str, ...], config: Config, most_mib: int) -> GroupedObjects:
    return inputs.load_grouped(files, most_mib, inputs.grouping_settings(config), reads_sets=True)


def _show(named: SetName, form: str, situation: set_reports.SetSituation, kind: str) -> int:
    if form not in ("table", "json", "yaml"):
        raise InputError(f"a PodCliqueSet has no form `{form}`", hint="table, json or yaml")
    report = set_reports.report_set(situation, *named)
    if form == "table":
        printing.show(set_views.draw_set(report))
    else:
        printing.emit(form, kind, set_views.set_data(report))
    return 0
