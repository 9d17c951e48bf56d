"""Access reviews of `kubectl auth`: the one user, who holds the token, may do everything."""

from typing import Any

from muster.api.resources import Resource
from muster.embedded.rest.responses import status_error
from muster.kube.cluster import Raw

USER: Raw = {"username": "muster-admin", "groups": ["system:masters", "system:authenticated"]}
_ALL_RULES: Raw = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_STATUS: dict[str, Raw] = {
    "selfsubjectreviews": {"userInfo": USER},
    "selfsubjectaccessreviews": {"allowed": True, "reason": "the embedded cluster has one user"},
    "subjectaccessreviews": {"allowed": True, "reason": "the embedded cluster has one user"},
    "selfsubjectrulesreviews": _ALL_RULES,
}


def review(resource: Resource, sent: Raw) -> Raw:
    """The review with the decision as its status."""
    if sent.get("kind", resource.kind) != resource.kind:
        raise status_error(400, f"expected a {resource.kind}, not a `{str(sent['kind'])[:60]}`")
    spec: Any = sent.get("spec")
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {"creationTimestamp": None},
        **({"spec": spec} if spec is not None else {}),
        "status": _STATUS[resource.plural],
    }
