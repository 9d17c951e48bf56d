"""AdmissionReviews as the API server sends them."""

import base64
from typing import Any

import msgspec

from tests.support.factories import Raw


def review(raw: Any, old: Any = None, **more: Any) -> Raw:
    """A CREATE, or an UPDATE where there is an old object; keywords replace parts of the request."""
    whole = raw if isinstance(raw, dict) else {}
    group, _, version = str(whole.get("apiVersion", "")).rpartition("/")
    request: Raw = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": whole.get("kind", "")},
        "resource": {"group": group, "version": version, "resource": "somethings"},
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:authenticated"]},
        "object": raw,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | more}


def sent(raw: Any, old: Any = None, **more: Any) -> bytes:
    """The same as bytes."""
    return msgspec.json.encode(review(raw, old, **more))


def patched(raw: Raw, answer: Raw) -> Raw:
    """What the API server makes of an object with the patch of an answer: a second reading of RFC 6902, small."""
    document: Raw = msgspec.json.decode(msgspec.json.encode(raw))
    for step in msgspec.json.decode(base64.b64decode(answer["patch"])):
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        holder: Any = document
        for part in way:
            holder = holder[part]
        if step["op"] == "remove":
            del holder[last]
        else:
            assert step["op"] == "add"
            holder[last] = step["value"]
    return document
