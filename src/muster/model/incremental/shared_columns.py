"""Columns whose meaning depends on several pods at once: host ports and exclusive columns."""

from collections.abc import Iterable, Mapping

from muster.api.core import Pod
from muster.model.inter_pod_rules import exclusive_columns, limit_columns
from muster.model.snapshot import HostPorts


class SharedColumns:
    """What pods request of host ports and exclusive columns, computed for every snapshot from the few such pods."""

    def __init__(self, bound: Mapping[str, Pod], waiting: Mapping[str, Pod], placed: Iterable[str]) -> None:
        self.ports = HostPorts((*bound.values(), *waiting.values()))
        self.requests: dict[str, dict[str, int]] = {
            name: self.ports.taken(pod.spec) for name, pod in (*bound.items(), *waiting.items())
        }
        columns_of = {name: exclusive_columns(pod) for name, pod in waiting.items()}
        self.exclusive = limit_columns({column for columns in columns_of.values() for column in columns})
        for name in placed if self.exclusive else ():
            columns_of[name] = exclusive_columns(bound[name])
        for name, columns in columns_of.items():
            self.requests[name].update(dict.fromkeys(self.exclusive.intersection(columns), 1))
