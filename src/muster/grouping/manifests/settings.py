"""What decides about grouping beside the objects."""

from collections.abc import Collection, Mapping

from msgspec import Struct

from muster.api.names import NODE_POOL
from muster.api.resources import Resource
from muster.grouping.owners import Missing
from muster.grouping.table import KINDS, KindRule
from muster.grouping.types import Raw
from muster.validation.pods.membership import OURS
from muster.workloads.table import CONTROLLERS
from muster.workloads.types import Controller

GroupKind = tuple[str, str]  # API group and kind


class GroupingSettings(Struct, frozen=True):
    """Whose pods are grouped, by which rules, and which owners are read."""

    schedulers: Collection[str] = OURS
    rules: tuple[KindRule, ...] = ()  # of a user's own kinds
    listed: frozenset[str] | None = None  # resources of owners that are read; None: all that have a rule
    own_controllers: tuple[Controller, ...] = ()  # of a user's own kinds
    pool_label: str = NODE_POOL  # of workloads and pods: names the shard of their PodGroups
    is_live: bool = False  # owners were looked for in a live cluster, too
    unread: Mapping[GroupKind, Missing] = {}  # owners there that could not be read, and why

    @property
    def kinds(self) -> frozenset[GroupKind]:
        """The kinds of owners that are read."""
        rules = (*KINDS.values(), *self.rules)
        return frozenset(
            (rule.group, rule.kind) for rule in rules if self.listed is None or rule.resource in self.listed
        )

    @property
    def controllers(self) -> Mapping[Resource, Controller]:
        """What makes the pods of workloads, by kind."""
        return {**CONTROLLERS, **{controller.resource: controller for controller in self.own_controllers}}

    @property
    def makers(self) -> frozenset[tuple[str, str]]:
        """`apiVersion` and `kind` of workloads whose pods are made here."""
        return frozenset((resource.api_version, resource.kind) for resource in self.controllers)


def group_kind(raw: Raw) -> GroupKind:
    """API group and kind of an object."""
    return raw["apiVersion"].rpartition("/")[0], raw["kind"]
