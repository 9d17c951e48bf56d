"""`pcs/NAMESPACE/NAME`: how commands and Python name a PodCliqueSet."""

from muster.api.names import DEFAULT_NAMESPACE
from muster.errors import InputError

WORDS = ("pcs", "podcliqueset", "podcliquesets")  # as kubectl takes them
SetName = tuple[str, str]  # namespace and name


def parse_set_name(word: str) -> SetName | None:
    """The set that a word names; None: it names something else. InputError: it is incomplete."""
    kind, _, rest = word.partition("/")
    if kind.lower() not in WORDS or not rest:
        return None
    namespace, _, name = rest.rpartition("/")
    if not name or "/" in namespace:
        raise InputError(f"`{word[:80]}` does not name a PodCliqueSet", hint="say `pcs/NAMESPACE/NAME`")
    return namespace or DEFAULT_NAMESPACE, name
