"""What a pod carries of its grouping: the annotations and labels by which it joins its gang (N3)."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from muster.api.meta import ObjectMeta


class PodMark(Struct, frozen=True):
    """Annotations and labels of one pod; a label that is None must not be there."""

    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str | None] = {}

    @property
    def may_be_bound(self) -> bool:
        """Whether a binding can carry it: that adds and replaces, and removes nothing."""
        return None not in self.labels.values()

    def is_on(self, meta: ObjectMeta) -> bool:
        """Whether a pod with this metadata carries it."""
        return all(meta.annotations.get(name) == text for name, text in self.annotations.items()) and all(
            meta.labels.get(name) == text for name, text in self.labels.items()
        )

    def put_on(self, meta: ObjectMeta) -> ObjectMeta:
        """The metadata of a pod once it carries it."""
        labels = {name: text for name, text in {**meta.labels, **self.labels}.items() if text is not None}
        return replace(meta, annotations={**meta.annotations, **self.annotations}, labels=labels)
