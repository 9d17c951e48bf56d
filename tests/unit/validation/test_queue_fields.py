"""Fields of a Queue by their paths."""

from typing import Any

import pytest

from muster.api.queue import QueueResource, QueueSpec
from muster.errors import InputError
from muster.validation.queue_fields import set_queue_field

SPEC = QueueSpec(resources={"gpu": QueueResource(quota=4)})


@pytest.mark.parametrize(
    ("path", "value", "was", "now"),
    [
        ("gpu.quota", 8, 4, 8),
        ("resources.gpu.quota", "8", 4, 8),
        ("gpu.quota", "0.5", 4, 0.5),
        ("gpu.quota", "", 4, 0),
        ("gpu.limit", 16, -1, 16),
        ("nvidia.com/mig-1g.5gb.overQuotaWeight", 2, 1, 2),
        ("priority", "200", 100, 200),
    ],
)
def test_a_number_is_set_at_a_path(path: str, value: Any, was: Any, now: Any) -> None:
    change = set_queue_field(SPEC, path, value)
    assert (change.was, change.now) == (was, now)
    assert SPEC.resources["gpu"].quota == 4, "a hypothesis is a new value"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", 1),
        ("gpu", 1),
        ("gpu.quotas", 1),
        (".quota", 1),
        ("parentQueue", "x"),
        ("gpu.quota", "many"),
        ("gpu.quota", True),
        ("gpu.quota", float("nan")),
        ("gpu.quota", "9" * 30),
    ],
)
def test_a_wrong_path_or_value_is_refused_with_a_hint(path: str, value: Any) -> None:
    with pytest.raises(InputError) as error:
        set_queue_field(SPEC, path, value)
    assert error.value.hint
