"""Reading verbs on a live cluster that does not let itself be read: what is wrong, and a way out."""

from typing import Any

import pytest

from muster.cli import live
from muster.cluster.memory import Memory
from muster.cluster.store import ApiError, Listing
from muster.errors import InputError


class Closed(Memory):
    """Says no to whoever lists."""

    def __init__(self, error: ApiError) -> None:
        super().__init__()
        self.error = error

    async def list(self, *_: Any, **__: Any) -> Listing:
        raise self.error


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ApiError(401, "Unauthorized", "Unauthorized"), "log in again"),
        (ApiError(403, "Forbidden", "you may not"), "ask for the right to list podgroups.scheduling.run.ai"),
        (ApiError(503, "ServiceUnavailable", "x: its certificate is not trusted"), "`certificate-authority`"),
        (ApiError(503, "ServiceUnavailable", "x: cannot be reached"), "kubectl cluster-info"),
        (ApiError(504, "Timeout", "x: no answer in time"), "kubectl cluster-info"),
        (ApiError(500, "InternalError", "etcd has no leader"), "kubectl get"),
    ],
)
async def test_a_cluster_that_cannot_be_read_is_told_with_a_way_out(error: ApiError, hint: str) -> None:
    with pytest.raises(InputError, match="cannot list podgroups") as caught:
        await live._read(Closed(error))
    assert error.message in caught.value.message
    assert hint in caught.value.hint


async def test_a_kind_that_the_cluster_does_not_know_has_no_objects() -> None:
    assert await live._read(Closed(ApiError(404, "NotFound", "no such kind"))) == []
