"""X5: what a pod asks for, against its life played step by step."""

from collections import Counter

from hypothesis import given

from muster.api.core import PodSpec
from muster.api.decoding import decode
from muster.validation.pods.requests import requests
from tests.property.trees import Dice, dice
from tests.support.factories import Raw

RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi")
POD_LEVEL = ("cpu", "memory", "hugepages-2Mi")


def amounts(drawn: Dice, names: tuple[str, ...] = RESOURCES) -> dict[str, int]:
    return {name: 1 + drawn.roll(9) for name in names if drawn.roll(2)}


def container(drawn: Dice, sidecar: bool = False) -> Raw:
    """Requests, limits, both or neither; a request is never above its limit."""
    stated = amounts(drawn)
    limits = {name: value + stated.get(name, 0) for name, value in amounts(drawn).items()}
    return {"resources": {"requests": stated, "limits": limits}} | ({"restartPolicy": "Always"} if sidecar else {})


def pod_spec(drawn: Dice) -> Raw:
    spec = {
        "containers": [container(drawn) for _ in range(1 + drawn.roll(3))],
        "initContainers": [container(drawn, bool(drawn.roll(2))) for _ in range(drawn.roll(5))],
    }
    return spec | ({"overhead": amounts(drawn)} if drawn.roll(2) else {})


def requests_of(raw: Raw) -> Counter[str]:
    """A limit without a request is one."""
    resources = raw["resources"]
    return Counter({**resources["limits"], **resources["requests"]})


def life(spec: Raw) -> list[Counter[str]]:
    """What runs at each moment: every init container beside the sidecars started before it, then everything else."""
    moments: list[Counter[str]] = []
    sidecars: Counter[str] = Counter()
    for raw in spec["initContainers"]:
        moments.append(sidecars + requests_of(raw))
        if "restartPolicy" in raw:
            sidecars = sidecars + requests_of(raw)
    moments.append(sum((requests_of(raw) for raw in spec["containers"]), sidecars))
    return moments


def most(spec: Raw) -> dict[str, int]:
    """The most that is held at any moment, in plain units."""
    return {name: max(moment[name] for moment in life(spec)) for name in RESOURCES}


def base(amounts: dict[str, int]) -> dict[str, int]:
    """In base units, without what is nothing."""
    return {name: value * (1000 if name == "cpu" else 1) for name, value in amounts.items() if value}


def counted(spec: Raw) -> dict[str, int]:
    decoded, wrong = decode(spec, PodSpec)
    assert not wrong
    return {name: value for name, value in requests(decoded).items() if value}


@given(dice(100).map(pod_spec))
def test_a_pod_asks_for_the_most_that_it_holds_at_any_moment(spec: Raw) -> None:
    """Room for less would stop it halfway; room for more would be wasted."""
    needed = Counter(most(spec)) + Counter(spec.get("overhead", {}))
    assert counted(spec) == base(needed)


@given(dice(100).map(pod_spec), dice(20))
def test_what_is_stated_for_the_pod_replaces_what_its_containers_add_up_to(spec: Raw, drawn: Dice) -> None:
    """Only cpu, memory and huge pages can be stated so; a limit alone counts where no container asks."""
    stated, limits = amounts(drawn), amounts(drawn)
    needed = most(spec)
    for name in POD_LEVEL:
        needed[name] = stated.get(name) or needed[name] or limits.get(name, 0)
    spec["resources"] = {"requests": stated, "limits": limits}
    assert counted(spec) == base(Counter(needed) + Counter(spec.get("overhead", {})))


@given(dice(100).map(pod_spec), dice(8))
def test_the_order_of_ordinary_containers_does_not_matter(spec: Raw, drawn: Dice) -> None:
    """They all run at once."""
    assert counted(spec | {"containers": drawn.shuffled(spec["containers"])}) == counted(spec)
