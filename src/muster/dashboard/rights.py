"""Who a viewer is, and what it may see."""

from msgspec import Struct


class ViewerRights(Struct, frozen=True):
    """A user, and the namespaces whose gangs it may list; None: all."""

    user: str
    namespaces: frozenset[str] | None = None

    @property
    def sees_all(self) -> bool:
        """Whether nothing is hidden."""
        return self.namespaces is None
