"""D3: `spec.topologyConstraints` to constraints on the groups themselves.

A constraint over a set of groups constrains their pods together: it moves to the group with exactly these pods. Where
there is none, and their parent needs all its children, it moves to a new branch between them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from muster.api.names import TOPOLOGY
from muster.errors import InputError, Refused

Raw = dict[str, Any]
FIELD = "topologyConstraints"
HERE = f"spec.{FIELD}"


def place_constraints(raw: Raw) -> Iterator[str]:
    """Move every constraint to its group, and yield the changes; Refused where no group can hold it."""
    spec = raw.get("spec") or {}
    if FIELD not in spec:
        return
    stated = _require_fields(spec[FIELD] or {}, {"global": dict, "subGroups": dict, "subGroupSets": list}, HERE)
    tree = _GroupTree(spec, _annotated_topology(raw))
    for name, constraint in (stated.get("subGroups") or {}).items():
        at = f"{HERE}.subGroups[{name}]"
        yield tree.put([name], _require_fields(constraint, {}, at), at)
    for i, entry in enumerate(stated.get("subGroupSets") or ()):
        at = f"{HERE}.subGroupSets[{i}]"
        constraint_set = _require_fields(entry, {"subGroups": list, "constraint": dict}, at)
        yield tree.put_set(constraint_set.get("subGroups") or [], constraint_set.get("constraint") or {}, at)
    if stated.get("global"):
        yield tree.put_global(stated["global"])
    if not any(stated.values()):
        yield f"`{HERE}` is gone: it was empty (D3)"
    del spec[FIELD]
    tree.keep_topologies()


def _annotated_topology(raw: Raw) -> str:
    """The Topology that the PodGroup's annotation names."""
    notes = (raw.get("metadata") or {}).get("annotations") or {}
    return str(notes.get(TOPOLOGY) or "")


def _require_fields(value: Any, fields: dict[str, type], at: str) -> Raw:
    """The value as an object with only these fields, of their types; with no fields given, any object."""
    if not isinstance(value, dict):
        raise InputError(f"{at}: expected an object")
    for name, inner in value.items():
        if fields and name not in fields:
            raise Refused(f"{at}: field `{name}` has no place in the form of record", hint="remove it, then convert")
        if fields and inner is not None and not isinstance(inner, fields[name]):
            raise InputError(f"{at}.{name}: expected {'a list' if fields[name] is list else 'an object'}")
    return value


class _GroupTree:
    """The groups of a spec as plain values, changed in place."""

    def __init__(self, spec: Raw, topology: str) -> None:
        self.spec = spec
        self.topology = topology
        self.in_sets: set[str] = set()
        self._index()
        self.intended: dict[str, str] = {name: self._topology(name) for name in self.groups}
        self.covered = {name for name, group in self.groups.items() if group.get("topologyConstraint")}

    def _index(self) -> None:
        self.groups: dict[str, Raw] = {group["name"]: group for group in self.spec.get("subGroups") or ()}
        self.children: dict[str, list[str]] = {}
        for name, group in self.groups.items():
            self.children.setdefault(group.get("parent") or "", []).append(name)

    def _topology(self, name: str) -> str:
        """The Topology of a constraint on this group (T4)."""
        while True:
            group = self.groups[name] if name else self.spec
            stated = (group.get("topologyConstraint") or {}).get("topology")
            if stated or not name:
                return stated or self.topology
            name = group.get("parent") or ""

    def keep_topologies(self) -> None:
        """T4: state the Topology of each group that would now inherit another one from a moved constraint."""
        for name, intended in self.intended.items():
            constraint = self.groups[name].get("topologyConstraint")
            if constraint and intended and not constraint.get("topology") and self._topology(name) != intended:
                self.groups[name]["topologyConstraint"] = {"topology": intended, **constraint}

    def put(self, names: Iterable[Any], constraint: Raw, at: str) -> str:
        """Put a constraint on these groups together; returns the change in words."""
        members = list(names)
        for name in members:
            if name not in self.groups:
                raise Refused(f"{at}: `{name}` is not a subgroup here", hint=f"known: {', '.join(sorted(self.groups))}")
        self.covered.update(members)
        tops = self._collapse(members)
        if len(tops) == 1:
            return f"`{at}` is now {self._assign(tops[0], constraint)} (D3)"
        return f"`{at}` is now {self._wrap(tops, constraint, at)} (D3)"

    def put_set(self, names: list[Any], constraint: Raw, at: str) -> str:
        if not names:
            raise Refused(f"{at}.subGroups: names no groups", hint="name the groups that sit together, or remove it")
        wrong = [name for name in names if not isinstance(name, str)]
        if wrong:
            raise InputError(f"{at}.subGroups: expected names, got `{str(wrong[0])[:40]}`")
        twice = [name for name in names if name in self.in_sets]
        if twice:
            raise Refused(
                f"{at}.subGroups: `{twice[0]}` is in another set already", hint="a group is in one set at most"
            )
        self.in_sets.update(names)
        return self.put(names, constraint, at)

    def put_global(self, constraint: Raw) -> str:
        """Put the global constraint on all groups without a more specific one, together."""
        at = f"{HERE}.global"
        if not self.groups:
            return f"`{at}` is now {self._assign('', constraint)} (D3)"
        specific = self._below(self.covered)
        rest = [name for name in self.groups if name not in self.children and name not in specific]
        if not rest:
            return f"`{at}` is gone: every group has a more specific constraint (D3)"
        return self.put(rest, constraint, at)

    def _below(self, names: Iterable[str]) -> set[str]:
        """These groups and all groups below them."""
        inside, pending = set[str](), list(names)
        while pending:
            name = pending.pop()
            if name not in inside:
                inside.add(name)
                pending += self.children.get(name, [])
        return inside

    def _collapse(self, names: list[str]) -> list[str]:
        """The fewest groups with exactly these pods: a parent replaces all of its children."""
        inside = self._below(names)
        pending = sorted({self.groups[name].get("parent") or "" for name in names})
        while pending:
            parent = pending.pop()
            if parent not in inside and all(child in inside for child in self.children[parent]):
                inside.add(parent)
                if parent:
                    pending.append(self.groups[parent].get("parent") or "")
        if "" in inside:
            return [""]
        tops = [name for name in inside if (self.groups[name].get("parent") or "") not in inside]
        return tops if len(tops) == 1 else [name for name in self.groups if name in set(tops)]

    def _assign(self, name: str, constraint: Raw) -> str:
        """Put it on the group itself, or on a new branch around it if the group has another constraint."""
        group = self.groups[name] if name else self.spec
        if group.get("topologyConstraint") in (None, {}, constraint):
            group["topologyConstraint"] = constraint
            return f"the constraint of `{name}`" if name else "the PodGroup's own constraint"
        members = [name] if name else self.children.get("", [])
        if not members:
            raise Refused(f"{HERE}.global: the PodGroup has another constraint already", hint="keep one of them")
        return self._wrap(members, constraint, HERE)

    def _wrap(self, members: list[str], constraint: Raw, at: str) -> str:
        """Put it on a new branch over some children of one parent; Refused unless the parent needs all of them."""
        groups = self.groups
        parents = {groups[name].get("parent") or "" for name in members}
        if len(parents) > 1:
            raise Refused(
                f"{at}: {_listed(members)} are not children of one group",
                hint="give them a common parent, then convert",
            )
        parent = parents.pop()
        holder = groups[parent] if parent else self.spec
        siblings, need = self.children[parent], holder.get("minSubGroup")
        branch: Raw = {"name": self._new_name(members, parent), "topologyConstraint": constraint}
        if len(members) == len(siblings):
            if need is not None:
                branch["minSubGroup"] = holder.pop("minSubGroup")
        elif len(members) > 1:
            if need not in (None, len(siblings)):
                raise Refused(
                    f"{at}: covers {_listed(members)}, but their parent needs only {need} of {len(siblings)} children",
                    hint="nest the groups that sit together under a SubGroup of their own, then convert",
                )
            if need is not None:
                holder["minSubGroup"] = need - len(members) + 1
        if parent:
            branch["parent"] = parent
        for name in members:
            groups[name]["parent"] = branch["name"]
        parts = self.spec["subGroups"]
        parts.insert(min(i for i, part in enumerate(parts) if part["name"] in members), branch)
        self._index()
        return f"on the new branch `{branch['name']}` around {_listed(members)}"

    def _new_name(self, members: list[str], parent: str) -> str:
        """A name for a new branch: the common prefix of its members' names."""
        shared = members[0] if len(members) == 1 else _prefix(members)
        base = (shared.rstrip("-") or parent or "together")[:50].rstrip("-")
        taken = self.groups
        tries = (base, f"{base}-together", *(f"{base}-{i}" for i in range(2, len(taken) + 3)))
        return next(name for name in tries if name not in taken)


def _prefix(members: list[str]) -> str:
    """The shared beginning, cut at a `-`."""
    low, high = min(members), max(members)
    length = next((i for i, letter in enumerate(low) if high[i : i + 1] != letter), len(low))
    return low[:length].rpartition("-")[0]


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
