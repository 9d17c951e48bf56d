"""What is wrong with a user's own kinds, as the configuration has them: where, what, and what would be right."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from muster.api.jsonpath import is_readable, parse_path
from muster.api.meta import Wire
from muster.grouping.custom_kinds import CustomKind, RolePaths
from muster.grouping.owner_reader import UNREAD_FIELDS
from muster.validation.problem import Problem, listed

_GROUP_VERSION = re.compile(r"([a-z0-9][-a-z0-9.]*/)?v[0-9]+((alpha|beta)[0-9]+)?")
_KIND, _PLURAL = re.compile(r"[A-Z][A-Za-z0-9]*"), re.compile(r"[a-z][a-z0-9]*")
_LABEL = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?")
_ROOTS = ("spec", "metadata")
_SELECTIONS = ("all", "range", "where")  # steps that lead to items of a list
_PATH_HINT = "such as `.spec.replicas`, `.spec.groups[0].size` or `.metadata.annotations['example.com/size']`"


def custom_kind_problems(kinds: Sequence[CustomKind], at: str) -> Iterator[Problem]:
    """Every problem of these kinds; `at` is where the list stands."""
    seen: dict[tuple[str, str], int] = {}
    for i, kind in enumerate(kinds):
        where = f"{at}[{i}]"
        yield from _names(kind, where)
        yield from _paths(kind, where)
        yield from _roles(kind, where)
        first = seen.setdefault((kind.group, kind.kind), i)
        if first != i:
            yield Problem(
                where, f"{kind.kind} of `{kind.group}` is described already in {at}[{first}]", hint="keep one"
            )


def _names(kind: CustomKind, at: str) -> Iterator[Problem]:
    for field, value, form, hint in (
        ("apiVersion", kind.api_version, _GROUP_VERSION, "such as `example.com/v1`"),
        ("kind", kind.kind, _KIND, "such as `Simulation`"),
        ("resource", kind.resource, _PLURAL, "the plural without its group, such as `simulations`"),
    ):
        if not value:
            yield Problem(f"{at}.{field}", "is missing", hint=hint)
        elif not form.fullmatch(value):
            yield Problem(f"{at}.{field}", f"`{value[:80]}` is not one", hint=hint)


def _paths(kind: CustomKind, at: str) -> Iterator[Problem]:
    of_object = {"replicas": kind.replicas, "minimum": kind.minimum, "roles.path": kind.roles.path}
    of_object |= {f"topology.{name}": path for name, path in _strings(kind.topology)}
    for field, path in of_object.items():
        yield from _path(f"{at}.{field}", path, _PATH_HINT)
        if path and is_readable(path) and parse_path(path)[0][1] not in _ROOTS:
            yield Problem(f"{at}.{field}", f"`{path[:80]}` is read in neither `spec` nor `metadata`", hint=_PATH_HINT)
    for field, path in _strings(kind.roles):
        if field != "path":
            yield from _path(f"{at}.roles.{field}", path, "a path that begins at a role, such as `.replicas`")


def _strings(part: Wire) -> Iterator[tuple[str, str]]:
    return ((field.encode_name, getattr(part, field.name)) for field in msgspec.structs.fields(type(part)))


def _path(at: str, path: str, hint: str) -> Iterator[Problem]:
    if path and not is_readable(path):
        yield Problem(at, f"`{path[:80]}` is not a JSON path", hint=hint)
    unread = sorted(UNREAD_FIELDS.intersection(name for _, name in parse_path(path)))
    if unread:
        yield Problem(at, f"`{unread[0]}` of objects is not read", hint=f"not read: {listed(UNREAD_FIELDS)}")


def _roles(kind: CustomKind, at: str) -> Iterator[Problem]:
    if kind.wrapper and (kind.replicas or kind.minimum or kind.roles.path):
        yield Problem(f"{at}.wrapper", "paths of a wrapper are not read", hint="drop them, or `wrapper`")
    if not kind.roles.path:
        if kind.roles != RolePaths():
            yield Problem(f"{at}.roles.path", "is missing", hint="say where the roles stand, such as `.spec.roles`")
        if kind.role_label:
            yield Problem(f"{at}.roleLabel", "is not read without `roles`", hint="drop it, or state `roles.path`")
        return
    if is_readable(kind.roles.path) and parse_path(kind.roles.path)[-1][0] in _SELECTIONS:
        yield Problem(
            f"{at}.roles.path",
            f"`{kind.roles.path[:80]}` leads to single roles",
            hint="the path of the list, or of the object by name, that holds them, without brackets at its end",
        )
    if not kind.role_label:
        yield Problem(f"{at}.roleLabel", "is missing", hint="the label of the pods that holds the name of their role")
    elif not _LABEL.fullmatch(kind.role_label):
        yield Problem(
            f"{at}.roleLabel", f"`{kind.role_label[:80]}` is not the name of a label", hint="`example.com/role`"
        )
    for field, path in (("replicas", kind.replicas), ("minimum", kind.minimum)):
        if path:
            yield Problem(f"{at}.{field}", "is not read beside `roles`", hint=f"`roles.{field}` says it for every role")
