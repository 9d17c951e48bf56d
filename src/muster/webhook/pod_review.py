"""AdmissionReviews of new pods: only what grouping reads is decoded; the answer is a patch of annotations and labels.

Rule: a pod is never denied here, whatever it says.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from muster.api.meta import Wire
from muster.api.resources import PODS
from muster.webhook.admission_review import API_VERSION, AdmissionResponse, GroupVersionKind, ReviewError, short

Raw = dict[str, Any]


class NewPodMark(Protocol):
    """What a pod is to carry."""

    @property
    def annotations(self) -> Mapping[str, str | None]:
        """Annotations to set; None removes one."""

    @property
    def labels(self) -> Mapping[str, str | None]:
        """Labels to set; None removes one."""


GroupPod = Callable[[Raw, str], Awaitable[NewPodMark | None]]  # a pod and its namespace; None: nothing is added


class NewPodSpec(Wire, frozen=True):
    """What grouping reads of the spec of a new pod."""

    scheduler_name: str = ""
    priority_class_name: str = ""


class NewPodMetadata(Wire, frozen=True):
    """What grouping reads of the metadata of a new pod."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: Any = None


class NewPod(Wire, frozen=True):
    """A pod that is being created."""

    metadata: NewPodMetadata = NewPodMetadata()
    spec: NewPodSpec = NewPodSpec()


class PodAdmissionRequest(Wire, frozen=True):
    """The creation of a pod."""

    uid: str = ""
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    operation: str = ""
    namespace: str = ""
    object: NewPod | None = None


class PodReview(Wire, frozen=True):
    """The AdmissionReview of the API server."""

    api_version: str = ""
    kind: str = ""
    request: PodAdmissionRequest | None = None


_REVIEWS = msgspec.json.Decoder(PodReview)


def decode_pod_review(body: bytes) -> PodAdmissionRequest:
    """The request of a review; ReviewError where it is malformed."""
    try:
        review = _REVIEWS.decode(body)
    except (msgspec.MsgspecError, UnicodeError, ValueError, RecursionError) as error:
        raise ReviewError(400, f"this is not an AdmissionReview of a pod: {short(str(error))}") from None
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        raise ReviewError(400, f"expected an AdmissionReview of `{API_VERSION}`")
    if review.request is None or not review.request.uid:
        raise ReviewError(400, "the review has no `request` with a `uid`")
    return review.request


async def admit_pod(request: PodAdmissionRequest, group: GroupPod) -> AdmissionResponse:
    """Allow the pod, with the annotations and labels of its gang where they are known."""
    is_new = request.kind.kind == PODS.kind and request.operation == "CREATE" and not request.sub_resource
    if not is_new or request.object is None:
        return AdmissionResponse(request.uid, allowed=True)
    pod = request.object
    mark = await group(msgspec.to_builtins(pod), request.namespace or pod.metadata.namespace)
    if mark is None:
        return AdmissionResponse(request.uid, allowed=True)
    patch = [
        *_patch("annotations", pod.metadata.annotations, mark.annotations),
        *_patch("labels", pod.metadata.labels, mark.labels),
    ]
    return AdmissionResponse(request.uid, allowed=True, patch_type="JSONPatch", patch=msgspec.json.encode(patch))


async def leave_ungrouped(_pod: Raw, _namespace: str) -> NewPodMark | None:
    """Add nothing: grouping at admission is off."""
    return None


def _patch(field: str, before: dict[str, str] | None, texts: Mapping[str, str | None]) -> list[Raw]:
    """A JSON patch of a map of texts: the map itself where there is none, as a patch cannot add into nothing."""
    known = before or {}
    added = {name: text for name, text in texts.items() if text is not None and known.get(name) != text}
    if not before:
        return [{"op": "add", "path": f"/metadata/{field}", "value": added}] if added else []
    removed = [name for name, text in texts.items() if text is None and name in known]
    return [{"op": "remove", "path": f"/metadata/{field}/{_escape(name)}"} for name in removed] + [
        {"op": "add", "path": f"/metadata/{field}/{_escape(name)}", "value": text} for name, text in added.items()
    ]


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
