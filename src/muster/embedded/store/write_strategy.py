"""What becomes of an object that is written, before it is stored: one value in, one value or a refusal out."""

from collections.abc import Callable
from typing import Any

from muster.api.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from muster.embedded.admission import metadata, pods
from muster.embedded.admission.admission_chain import (
    Unknown,
    admit,
    needs_version,
    settled_namespace,
    shaped,
    strangers,
)
from muster.embedded.admission.defaults import filled_in
from muster.embedded.admission.structural_schemas import MOST_PROBLEMS
from muster.embedded.api_errors import Cause, bad_request, forbidden, invalid, other_uid, out_of_date
from muster.embedded.patch.merge_keys import MergeKeys
from muster.embedded.patch.server_side_apply import Manager, managers, written
from muster.embedded.store.kinds import Kind
from muster.embedded.store.object_store import ObjectStore, home
from muster.embedded.store.versioned_table import Stored
from muster.kube.cluster import Raw

DEFAULT = "default"
_TRIES = 8


class WriteStrategy:
    """Creation and update as values; `object_store` is only read."""

    def __init__(self, object_store: ObjectStore, moment: Callable[[int], str], new_uid: Callable[[], str]) -> None:
        self._object_store, self._moment, self._new_uid = object_store, moment, new_uid

    def space(self, kind: Kind, raw: Raw, namespace: str) -> str:
        """The namespace of an object, by itself and by the request."""
        if not kind.resource.namespaced:
            return ""
        own = raw["metadata"].get("namespace") or ""
        if own and namespace and own != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        return own or namespace or DEFAULT

    def created(self, kind: Kind, raw: Raw, namespace: str, unknown: Unknown) -> Raw:
        """A new object as it will be stored."""
        if raw["metadata"].get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        space = self.space(kind, raw, namespace)
        new = {**raw, "metadata": self._born(kind, raw, space)}
        name = new["metadata"]["name"]
        if kind.resource.namespaced:
            found = self._object_store.get(home(NAMESPACES), ("", space))
            settled_namespace(found.raw if found else None, space, kind, name)
        if "status" in kind.subresources and kind.resource not in (NODES, NAMESPACES):
            new.pop("status", None)
        new = self._defaulted(kind, shaped(new, kind, unknown), name)
        admit(new, None, kind)
        return new

    def _born(self, kind: Kind, raw: Raw, space: str) -> Raw:
        """Identity; a generated name that is taken is drawn again."""
        for _ in range(_TRIES):
            found = metadata.born(raw, kind, namespace=space, uid=self._new_uid(), now=self._moment(0))
            if (
                raw["metadata"].get("name")
                or self._object_store.get(home(kind.resource), (space, found["name"])) is None
            ):
                break
        return found

    def _defaulted(self, kind: Kind, raw: Raw, name: str) -> Raw:
        if kind.resource != PODS:
            return filled_in(kind, raw, self._moment(0))
        try:
            found = pods.defaulted(raw, self._classes())
        except LookupError as missing:
            why = f"no PriorityClass with name {missing.args[0]} was found"
            raise forbidden(PODS, name, why) from None
        if why := pods.contradiction(raw.get("spec") or {}, found["spec"]):
            raise forbidden(PODS, name, why)
        return found

    def _classes(self) -> list[Raw]:
        return [one.raw for one in self._object_store.table(home(PRIORITY_CLASSES)).objects()]

    def same(self, kind: Kind, old: Stored, given: Raw, *, needed: bool) -> None:
        """Whether the writer means this object, in this state; ApiError 409 where not."""
        uid, version = given.get("uid"), given.get("resourceVersion")
        if uid and uid != old.uid:
            raise other_uid(kind.resource, old.key[1], uid, old.uid)
        if version and version != str(old.version):
            raise out_of_date(kind.resource, old.key[1])
        if needed and not version and needs_version(kind):
            cause = Cause("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update")
            raise invalid(kind.resource, old.key[1], [cause])

    def named(self, kind: Kind, old: Stored, new: Raw) -> None:
        """A patch does not rename."""
        space, name = new["metadata"].get("namespace") or "", new["metadata"].get("name") or ""
        if name != old.key[1] or (kind.resource.namespaced and space != old.key[0]):
            raise bad_request("the name of the object does not match the name on the URL")

    def applicable(self, kind: Kind, config: Raw, namespace: str, name: str, subresource: str) -> Raw:
        """A configuration that names the object of the request, and only what it may set there."""
        inside = {"namespace": namespace} if kind.resource.namespaced else {}
        own = {"name": name, **inside, **config["metadata"]}
        if own["name"] != name or (own.get("namespace") or "") != (namespace if kind.resource.namespaced else ""):
            raise bad_request("the name of the object does not match the name on the URL")
        if "managedFields" in own:
            raise bad_request("metadata.managedFields must be nil")
        if lost := strangers(config, kind):
            what = f"({namespace}/{name}; {kind.resource.api_version}, Kind={kind.resource.kind})"
            why = ", ".join(f".{place}: field not declared in schema" for place in lost[:MOST_PROBLEMS])
            raise bad_request(f"failed to create typed patch object {what}: {why}")
        apart = "status" in kind.subresources and not subresource
        return {field: value for field, value in config.items() if field != "status" or not apart} | {"metadata": own}

    def updated(self, kind: Kind, old: Stored, given: Raw, subresource: str, who: Manager, unknown: Unknown) -> Raw:
        """An object as an update makes it; equal to the old one where nothing changes."""
        new = self._parts(kind, old.raw, given, subresource)
        new = {**new, "metadata": metadata.kept(old.raw["metadata"], new["metadata"])}
        new = shaped(new, kind, unknown)
        if not subresource:
            new = self._refilled(kind, old.raw, new)
        admit(new, old.raw, kind, judged=not subresource)
        new = metadata.raised(old.raw, new, kind)
        if who.operation == "Update" and _unclaimed(old.raw, new) and managers(old.raw):
            new = written(old.raw, new, MergeKeys.of(kind.schema), who)
        return new

    def _parts(self, kind: Kind, old: Raw, given: Raw, subresource: str) -> Raw:
        """A write of the whole leaves the status alone, and a write of the status all else."""
        if subresource == "status":
            owned = given["metadata"].get("managedFields", old["metadata"].get("managedFields"))
            whole = {**old, "metadata": {**old["metadata"], **({"managedFields": owned} if owned else {})}}
            return _with_status(whole, given)
        return _with_status(given, old) if "status" in kind.subresources else given

    def _refilled(self, kind: Kind, old: Raw, new: Raw) -> Raw:
        """Defaults of what an update leaves out; a pod keeps the priority that it was given."""
        if kind.resource != PODS:
            return filled_in(kind, new, self._moment(0))
        spec = pods.with_defaults(new.get("spec") or {})
        kept = ("priority", "preemptionPolicy", "priorityClassName")
        return {**new, "spec": {**{name: old["spec"][name] for name in kept if name in old["spec"]}, **spec}}


def _with_status(raw: Raw, source: Raw) -> Raw:
    found: dict[str, Any] = {name: value for name, value in raw.items() if name != "status"}
    return {**found, "status": source["status"]} if source.get("status") is not None else found


def _unclaimed(old: Raw, new: Raw) -> bool:
    """Whether the writer left `managedFields` as they were."""
    return bool(old["metadata"].get("managedFields") == new["metadata"].get("managedFields"))
