"""muster: a gang scheduler for Kubernetes. Nothing starts until enough have mustered, at every level.

    objects = muster.load("cluster/", "workloads/dynamo.yaml")
    plan = muster.plan(objects)
    problems = muster.validate(podgroup_dict)

Names are imported when they are first used, so that `import muster` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.facade import (
        Objects,
        Plan,
        Policy,
        Problem,
        WhatIf,
        WorkloadGroups,
        explain,
        group,
        load,
        objects,
        plan,
        simulate,
        validate,
        what_if,
    )

__version__ = "0.1.0"
__all__ = [
    "Objects",
    "Plan",
    "Policy",
    "Problem",
    "WhatIf",
    "WorkloadGroups",
    "explain",
    "group",
    "load",
    "objects",
    "plan",
    "simulate",
    "validate",
    "what_if",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module `muster` has no `{name}`; it has {', '.join(__all__)}")
    from muster import facade

    return getattr(facade, name)
