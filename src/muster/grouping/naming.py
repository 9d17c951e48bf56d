"""Names that Kubernetes accepts: of PodGroups, and of SubGroups, which pods carry as the value of a label (V3).

Rule: a name that is valid stays as it is. Any other is cut and ends in a hash of the whole, so that two of them differ.
"""

import re
from hashlib import sha256

from muster.api.meta import ObjectMeta

LONGEST_LABEL, LONGEST_NAME = 63, 253
_HASH = 8
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def sub_group_name(text: str) -> str:
    """The name of a SubGroup: a DNS label."""
    name = text.lower()
    if len(name) <= LONGEST_LABEL and _LABEL.fullmatch(name):
        return name
    return _shorten(re.sub(r"[^a-z0-9]+", "-", name), text, LONGEST_LABEL)


def pod_group_name(*parts: str) -> str:
    """The name of a PodGroup: `pg-` and these parts, without the empty ones."""
    whole = "-".join(("pg", *filter(None, parts)))
    if len(whole) <= LONGEST_NAME and _NAME.fullmatch(whole):
        return whole
    return _shorten(re.sub(r"[^a-z0-9]+", "-", whole.lower()), whole, LONGEST_NAME)


def stem_of(metadata: ObjectMeta) -> str:
    """The name of an object; before it has one, what its name will begin with."""
    return metadata.name or metadata.generate_name.rstrip("-.")


def hashed(text: str) -> str:
    """A few letters that stand for a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def _shorten(valid: str, whole: str, longest: int) -> str:
    kept = valid[: longest - _HASH - 1].strip("-")
    return f"{kept}-{hashed(whole)}" if kept else f"x{hashed(whole)}"
