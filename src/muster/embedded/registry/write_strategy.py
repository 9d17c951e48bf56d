"""What a write prepares before it is stored: PrepareForCreate, PrepareForUpdate and apply, as values or ApiErrors."""

from collections.abc import Callable, Iterable
from typing import Any

from muster.api.resources import NAMESPACES, NODES, POD_CLIQUE_SETS, PODS, PRIORITY_CLASSES, Resource
from muster.embedded.admission import metadata, pods
from muster.embedded.admission.admission_chain import (
    UnknownFieldHandler,
    prune_and_default,
    require_active_namespace,
    requires_resource_version,
    unknown_fields,
    validate,
)
from muster.embedded.admission.defaults import apply_defaults
from muster.embedded.admission.structural_schemas import MOST_PROBLEMS
from muster.embedded.api_errors import Cause, bad_request, forbidden, invalid, other_uid, out_of_date
from muster.embedded.patch.merge_keys import MergeKeys
from muster.embedded.patch.server_side_apply import FieldManager, managers_of, record_update
from muster.embedded.store.kinds import Kind
from muster.embedded.store.object_store import ObjectStore, group_resource
from muster.embedded.store.versioned_table import StoredObject
from muster.kube.cluster import Raw
from muster.validation.context import ValidationContext
from muster.validation.grove.defaults import with_set_defaults

DEFAULT_NAMESPACE = "default"
_GENERATED_NAME_ATTEMPTS = 8


class WriteStrategy:
    """Prepares creations and updates; only reads `object_store`."""

    def __init__(self, object_store: ObjectStore, timestamp: Callable[[int], str], new_uid: Callable[[], str]) -> None:
        self._object_store, self._timestamp, self._new_uid = object_store, timestamp, new_uid

    def namespace_of(self, kind: Kind, raw: Raw, namespace: str) -> str:
        """The namespace of an object: its own, else that of the request; ApiError 400 where they differ."""
        if not kind.resource.namespaced:
            return ""
        own = raw["metadata"].get("namespace") or ""
        if own and namespace and own != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        return own or namespace or DEFAULT_NAMESPACE

    def prepare_create(self, kind: Kind, raw: Raw, namespace: str, on_unknown_fields: UnknownFieldHandler) -> Raw:
        """A new object as it will be stored: defaulted and validated."""
        if raw["metadata"].get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        own_namespace = self.namespace_of(kind, raw, namespace)
        new = {**raw, "metadata": self._new_metadata(kind, raw, own_namespace)}
        name = new["metadata"]["name"]
        if kind.resource.namespaced:
            stored = self._object_store.get(group_resource(NAMESPACES), ("", own_namespace))
            require_active_namespace(stored.raw if stored else None, own_namespace, kind, name)
        if "status" in kind.subresources and kind.resource not in (NODES, NAMESPACES):
            new.pop("status", None)
        new = self._default_new(kind, prune_and_default(new, kind, on_unknown_fields), name)
        validate(new, None, kind, context=self._context(kind))
        return new

    def _context(self, kind: Kind) -> ValidationContext | None:
        """What a PodCliqueSet is refused for: sets whose names it would share, and no binding for its constraints."""
        return ValidationContext(read_others=self._objects_of) if kind.resource == POD_CLIQUE_SETS else None

    def _objects_of(self, resource: Resource) -> Iterable[Raw]:
        return (stored.raw for stored in self._object_store.table(group_resource(resource)).objects())

    def _new_metadata(self, kind: Kind, raw: Raw, namespace: str) -> Raw:
        """Name, uid and creation time; draws another generated name where the first ones exist."""
        for _ in range(_GENERATED_NAME_ATTEMPTS):
            new = metadata.new_metadata(raw, kind, namespace=namespace, uid=self._new_uid(), now=self._timestamp(0))
            key = (namespace, new["name"])
            if raw["metadata"].get("name") or self._object_store.get(group_resource(kind.resource), key) is None:
                break
        return new

    def _default_new(self, kind: Kind, raw: Raw, name: str) -> Raw:
        if kind.resource != PODS:
            return apply_defaults(kind, raw, self._timestamp(0))
        try:
            pod = pods.default_new_pod(raw, self._priority_classes())
        except LookupError as missing:
            reason = f"no PriorityClass with name {missing.args[0]} was found"
            raise forbidden(PODS, name, reason) from None
        if reason := pods.priority_conflict(raw.get("spec") or {}, pod["spec"]):
            raise forbidden(PODS, name, reason)
        return pod

    def _priority_classes(self) -> list[Raw]:
        return [stored.raw for stored in self._object_store.table(group_resource(PRIORITY_CLASSES)).objects()]

    def check_preconditions(
        self, kind: Kind, old: StoredObject, new_metadata: Raw, *, requires_version: bool = False
    ) -> None:
        """ApiError 409 where the write names another uid or resourceVersion than the stored object has."""
        uid, version = new_metadata.get("uid"), new_metadata.get("resourceVersion")
        if uid and uid != old.uid:
            raise other_uid(kind.resource, old.key[1], uid, old.uid)
        if version and version != str(old.version):
            raise out_of_date(kind.resource, old.key[1])
        if requires_version and not version and requires_resource_version(kind):
            cause = Cause("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update")
            raise invalid(kind.resource, old.key[1], [cause])

    def check_patched(self, kind: Kind, old: StoredObject, new_metadata: Raw) -> None:
        """ApiError 422 where a patch names another uid, 409 where it names another resourceVersion."""
        if (uid := new_metadata.get("uid")) and uid != old.uid:
            cause = Cause("metadata.uid", f'Invalid value: "{uid}": field is immutable')
            raise invalid(kind.resource, old.key[1], [cause])
        self.check_preconditions(kind, old, new_metadata)

    def check_not_renamed(self, kind: Kind, old: StoredObject, new: Raw) -> None:
        """ApiError 400 where a patch changes name or namespace."""
        namespace, name = new["metadata"].get("namespace") or "", new["metadata"].get("name") or ""
        if name != old.key[1] or (kind.resource.namespaced and namespace != old.key[0]):
            raise bad_request("the name of the object does not match the name on the URL")

    def prepare_apply(self, kind: Kind, config: Raw, namespace: str, name: str, subresource: str) -> Raw:
        """An apply configuration with the name of the request, without the status where that is a subresource."""
        expected_namespace = namespace if kind.resource.namespaced else ""
        defaults = {"name": name, **({"namespace": namespace} if kind.resource.namespaced else {})}
        config_metadata = {**defaults, **config["metadata"]}
        if config_metadata["name"] != name or (config_metadata.get("namespace") or "") != expected_namespace:
            raise bad_request("the name of the object does not match the name on the URL")
        if "managedFields" in config_metadata:
            raise bad_request("metadata.managedFields must be nil")
        if unknown := unknown_fields(config, kind):
            what = f"({namespace}/{name}; {kind.resource.api_version}, Kind={kind.resource.kind})"
            reason = ", ".join(f".{path}: field not declared in schema" for path in unknown[:MOST_PROBLEMS])
            raise bad_request(f"failed to create typed patch object {what}: {reason}")
        drops_status = "status" in kind.subresources and not subresource
        fields = {field: value for field, value in config.items() if field != "status" or not drops_status}
        return fields | {"metadata": config_metadata}

    def prepare_update(
        self,
        kind: Kind,
        old: StoredObject,
        raw: Raw,
        subresource: str,
        manager: FieldManager,
        on_unknown_fields: UnknownFieldHandler,
    ) -> Raw:
        """An object as it will be stored after an update; equal to the old one where nothing changes."""
        new = self._merge_subresource(kind, old.raw, raw, subresource)
        new = {**new, "metadata": metadata.updated_metadata(old.raw["metadata"], new["metadata"])}
        new = prune_and_default(new, kind, on_unknown_fields)
        if not subresource:
            new = self._default_updated(kind, old.raw, new)
        validate(new, old.raw, kind, checks_spec=not subresource, context=self._context(kind))
        new = metadata.with_generation(old.raw, new, kind)
        if manager.operation == "Update" and _keeps_managed_fields(old.raw, new) and managers_of(old.raw):
            new = record_update(old.raw, new, MergeKeys.of(kind.schema), manager)
        return new

    def _merge_subresource(self, kind: Kind, old: Raw, raw: Raw, subresource: str) -> Raw:
        """An update of the object keeps its status; an update of the status keeps all else."""
        if subresource == "status":
            managed = raw["metadata"].get("managedFields", old["metadata"].get("managedFields"))
            base = {**old, "metadata": {**old["metadata"], **({"managedFields": managed} if managed else {})}}
            return _with_status_of(raw, base)
        return _with_status_of(old, raw) if "status" in kind.subresources else raw

    def _default_updated(self, kind: Kind, old: Raw, new: Raw) -> Raw:
        """Defaults of the fields that an update leaves out; a pod keeps its priority, a clique its minimum."""
        if kind.resource == POD_CLIQUE_SETS:
            return with_set_defaults(new, old)
        if kind.resource != PODS:
            return apply_defaults(kind, new, self._timestamp(0))
        spec = pods.default_spec(new.get("spec") or {})
        immutable = ("priority", "preemptionPolicy", "priorityClassName")
        return {**new, "spec": {**{name: old["spec"][name] for name in immutable if name in old["spec"]}, **spec}}


def _with_status_of(source: Raw, raw: Raw) -> Raw:
    """`raw` with the status of `source`."""
    without_status: dict[str, Any] = {name: value for name, value in raw.items() if name != "status"}
    return {**without_status, "status": source["status"]} if source.get("status") is not None else without_status


def _keeps_managed_fields(old: Raw, new: Raw) -> bool:
    """Whether the writer left `managedFields` as they were."""
    return bool(old["metadata"].get("managedFields") == new["metadata"].get("managedFields"))
