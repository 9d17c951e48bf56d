"""What is refused in Grove's kinds (R4-R9), on create and on update: every sentence, where, and with which way out."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from muster.api.resources import CLUSTER_TOPOLOGY_BINDINGS, POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, Resource
from tests.spec.scene import errors, places, problems, warnings
from tests.support.factories import Raw
from tests.support.grove import clique, group, pod_clique_set

CLIQUES, GROUPS = "spec.template.cliques", "spec.template.podCliqueScalingGroups"
EXPLICIT, IN_ORDER = "CliqueStartupTypeExplicit", "CliqueStartupTypeInOrder"
Change = Callable[[Raw], object]


def pods(**spec: Any) -> Raw:
    return {"podSpec": {"containers": [{"name": "main", "image": "image:1"}], **spec}}


def inference(**template: Any) -> Raw:
    """A router beside replicas of a leader and its workers."""
    return pod_clique_set(
        clique("router", 2, 1),
        clique("leader", 1),
        clique("worker", 4, 4),
        groups=[group("serve", "leader", "worker", replicas=2)],
        **template,
    )


def binding(*domains: str, name: str = "dc") -> Raw:
    levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    return manifest(CLUSTER_TOPOLOGY_BINDINGS, name, {"levels": levels})


def manifest(resource: Resource, name: str, spec: Raw) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


def cliques_of(raw: Raw) -> list[Raw]:
    cliques: list[Raw] = raw["spec"]["template"]["cliques"]
    return cliques


def groups_of(raw: Raw) -> list[Raw]:
    groups: list[Raw] = raw["spec"]["template"]["podCliqueScalingGroups"]
    return groups


def in_clique(number: int, **spec: Any) -> Change:
    return lambda raw: cliques_of(raw)[number]["spec"].update(spec)


def of_clique(number: int, **fields: Any) -> Change:
    return lambda raw: cliques_of(raw)[number].update(fields)


def in_group(**fields: Any) -> Change:
    return lambda raw: groups_of(raw)[0].update(fields)


def in_template(**fields: Any) -> Change:
    return lambda raw: raw["spec"]["template"].update(fields)


def ordered(**starts_after: list[str]) -> Change:
    def change(raw: Raw) -> None:
        raw["spec"]["template"]["cliqueStartupType"] = EXPLICIT
        for one in cliques_of(raw):
            one["spec"]["startsAfter"] = starts_after.get(one["name"], [])

    return change


def changed(raw: Raw, change: Change) -> Raw:
    copied = deepcopy(raw)
    change(copied)
    return copied


def test_a_set_of_roles_and_groups_is_accepted() -> None:
    """Nothing to say about it, as a new one and as an update of itself."""
    assert problems(inference()) == []
    assert problems(inference(), inference()) == []


REFUSED: dict[str, tuple[Change, str]] = {
    "no clique": (in_template(cliques=[], podCliqueScalingGroups=[]), CLIQUES),
    "a clique without a name": (of_clique(0, name=""), f"{CLIQUES}[0].name"),
    "a clique with a bad name": (of_clique(0, name="Router"), f"{CLIQUES}[0].name"),
    "a clique whose name holds a dot, which no host name may": (of_clique(0, name="a.b"), f"{CLIQUES}[0].name"),
    "two cliques of one name": (lambda raw: cliques_of(raw).append(clique("router")), f"{CLIQUES}[3].name"),
    "a group with a bad name": (in_group(name="-x"), f"{GROUPS}[0].name"),
    "two groups of one name": (lambda raw: groups_of(raw).append(group("serve", "router")), f"{GROUPS}[1].name"),
    "two cliques of one role": (in_clique(1, roleName="router"), f"{CLIQUES}[1].spec.roleName"),
    "a clique without a role": (in_clique(1, roleName=""), f"{CLIQUES}[1].spec.roleName"),
    "a label that no object may have": (of_clique(0, labels={"a b": "c"}), f"{CLIQUES}[0].labels"),
    "negative replicas of the set": (lambda raw: raw["spec"].update(replicas=-1), "spec.replicas"),
    "negative replicas of a clique": (in_clique(0, replicas=-1), f"{CLIQUES}[0].spec.replicas"),
    "no replicas of a group": (in_group(replicas=0), f"{GROUPS}[0].replicas"),
    "a minimum of nothing in a clique": (in_clique(0, minAvailable=0), f"{CLIQUES}[0].spec.minAvailable"),
    "a minimum of nothing in a group": (in_group(minAvailable=0), f"{GROUPS}[0].minAvailable"),
    "a minimum above the replicas of a clique": (in_clique(0, minAvailable=3), f"{CLIQUES}[0].spec.minAvailable"),
    "a minimum above the replicas of a group": (in_group(minAvailable=3), f"{GROUPS}[0].minAvailable"),
    "a standalone clique whose name is too long": (of_clique(0, name="r" * 45), f"{CLIQUES}[0].name"),
    "a member whose name is too long with its group": (in_group(name="s" * 39), f"{CLIQUES}[1].name"),
    "an empty parent": (ordered(worker=[""]), f"{CLIQUES}[2].spec.startsAfter[0]"),
    "a clique that starts after itself": (ordered(worker=["worker"]), f"{CLIQUES}[2].spec.startsAfter[0]"),
    "an unknown parent": (ordered(worker=["leder"]), f"{CLIQUES}[2].spec.startsAfter[0]"),
    "a repeated parent": (ordered(worker=["leader", "leader"]), f"{CLIQUES}[2].spec.startsAfter[1]"),
    "parents in a circle": (
        ordered(router=["worker"], leader=["router"], worker=["leader"]),
        f"{CLIQUES}[0].spec.startsAfter",
    ),
    "an autoscaler below the minimum of a clique": (
        in_clique(0, minAvailable=2, autoScalingConfig={"minReplicas": 1, "maxReplicas": 4}),
        f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas",
    ),
    "an autoscaler below the minimum of a group": (
        in_group(minAvailable=2, scaleConfig={"minReplicas": 1, "maxReplicas": 4}),
        f"{GROUPS}[0].scaleConfig.minReplicas",
    ),
    "an autoscaler whose limits are the wrong way round": (
        in_clique(0, autoScalingConfig={"minReplicas": 5, "maxReplicas": 4}),
        f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas",
    ),
    "an autoscaler that never reaches the replicas of the template": (
        in_clique(0, replicas=8, autoScalingConfig={"minReplicas": 1, "maxReplicas": 4}),
        f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas",
    ),
    "an autoscaler that never reaches the replicas of a group": (
        in_group(replicas=8, scaleConfig={"minReplicas": 1, "maxReplicas": 4}),
        f"{GROUPS}[0].scaleConfig.maxReplicas",
    ),
    "a clique in two groups": (
        lambda raw: groups_of(raw).append(group("other", "leader")),
        f"{GROUPS}[1].cliqueNames[0]",
    ),
    "an unknown clique in a group": (in_group(cliqueNames=["leader", "wrker"]), f"{GROUPS}[0].cliqueNames[1]"),
    "a group without cliques": (in_group(cliqueNames=[]), f"{GROUPS}[0].cliqueNames"),
    "a member with an autoscaler of its own": (
        in_clique(1, autoScalingConfig={"maxReplicas": 4}),
        f"{CLIQUES}[1].spec.autoScalingConfig",
    ),
    "a topology spread": (
        in_clique(0, **pods(topologySpreadConstraints=[{"maxSkew": 1}])),
        f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints",
    ),
    "a node by name": (in_clique(0, **pods(nodeName="n1")), f"{CLIQUES}[0].spec.podSpec.nodeName"),
    "pods without containers": (in_clique(0, podSpec={}), f"{CLIQUES}[0].spec.podSpec.containers"),
    "cliques with different schedulers": (
        in_clique(1, **pods(schedulerName="default-scheduler")),
        f"{CLIQUES}[1].spec.podSpec.schedulerName",
    ),
    "an unknown startup type": (in_template(cliqueStartupType="Sideways"), "spec.template.cliqueStartupType"),
    "no termination delay at all": (in_template(terminationDelay="0s"), "spec.template.terminationDelay"),
    "a termination delay that is no duration": (in_template(terminationDelay="soon"), "spec.template.terminationDelay"),
    "a constraint without a domain": (
        in_template(topologyConstraint={"topologyName": "dc"}),
        "spec.template.topologyConstraint.pack",
    ),
    "a constraint in both forms that differ": (
        in_template(topologyConstraint={"topologyName": "dc", "packDomain": "zone", "pack": {"required": "rack"}}),
        "spec.template.topologyConstraint.pack.required",
    ),
    "shared claims": (in_template(resourceSharing=[{"name": "x"}]), "spec.template.resourceSharing"),
    "templates of shared claims": (
        in_template(resourceClaimTemplates=[{"name": "x"}]),
        "spec.template.resourceClaimTemplates",
    ),
    "shared claims of a clique": (of_clique(0, resourceSharing=[{"name": "x"}]), f"{CLIQUES}[0].resourceSharing"),
    "shared claims of a group": (in_group(resourceSharing=[{"name": "x"}]), f"{GROUPS}[0].resourceSharing"),
    "a rate of updates": (of_clique(0, rollingUpdate={"maxUnavailable": 2}), f"{CLIQUES}[0].rollingUpdate"),
    "multi-node NVLink": (
        lambda raw: raw["metadata"].update(annotations={"grove.io/auto-mnnvl": "enabled"}),
        "metadata.annotations[grove.io/auto-mnnvl]",
    ),
    "multi-node NVLink of a clique": (
        of_clique(0, annotations={"grove.io/mnnvl-group": "a"}),
        f"{CLIQUES}[0].annotations[grove.io/mnnvl-group]",
    ),
    "an update strategy that there is not": (
        lambda raw: raw["spec"].update(updateStrategy={"type": "Coherent"}),
        "spec.updateStrategy.type",
    ),
    "a standalone clique named like a member of a replica": (
        of_clique(0, name="serve-0-leader"),
        f"{CLIQUES}[0].name",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_set_is_refused_on_create_for(case: str) -> None:
    """The problem is where the mistake is, and says a way out (R4-R8)."""
    change, at = REFUSED[case]
    all_errors = errors(changed(inference(), change))
    assert at in places(all_errors)
    assert all(problem.says and problem.hint and problem.rule for problem in all_errors)


@pytest.mark.parametrize("case", REFUSED)
def test_a_set_is_refused_on_update_for(case: str) -> None:
    """As on create; what cannot change at all is said beside it."""
    change, at = REFUSED[case]
    assert at in places(errors(changed(inference(), change), inference()))


@pytest.mark.parametrize("case", REFUSED)
def test_a_stored_set_can_still_be_scaled_whatever_it_breaks(case: str) -> None:
    """It may be older than the rule: then the problem is a warning."""
    stored = changed(inference(), REFUSED[case][0])
    scaled = deepcopy(stored)
    if case == "negative replicas of the set":
        return
    scaled["spec"]["replicas"] = 0
    assert errors(scaled, stored) == []
    assert any("already" in problem.says for problem in warnings(scaled, stored))


def test_a_circle_is_named() -> None:
    """Round and round: who waits for whom."""
    (problem,) = errors(changed(inference(), REFUSED["parents in a circle"][0]))
    assert problem.says == "goes round in a circle: router → worker → leader → router"


def test_a_bad_name_of_the_set_is_refused() -> None:
    """It is part of every name."""
    for name in ("W", "a.b", "w-", ""):
        assert "metadata.name" in places(errors(pod_clique_set(clique("a"), name=name)), "R4")
    assert errors(pod_clique_set(clique("a"), name="w" * 44)) == []
    assert places(errors(pod_clique_set(clique("a"), name="w" * 45))) == [f"{CLIQUES}[0].name"]


def test_names_of_a_member_count_with_its_group() -> None:
    """45 together: the rest of 63 is for numbers, dashes and the random end of a pod's name."""
    fits = pod_clique_set(clique("c" * 20), groups=[group("g" * 20, "c" * 20)], name="w" * 5)
    assert errors(fits) == []
    too_long = pod_clique_set(clique("c" * 20), groups=[group("g" * 20, "c" * 20)], name="w" * 6)
    (problem,) = errors(too_long)
    assert "46 characters" in problem.says


def test_a_zero_in_a_template_is_read_as_one() -> None:
    """As Grove does, and said: PodCliques themselves can be scaled to zero."""
    (problem,) = problems(pod_clique_set(clique("a", 0)))
    assert (problem.severity, problem.at, problem.says) == (
        "warning",
        f"{CLIQUES}[0].spec.replicas",
        "0 is read as 1",
    )


def test_a_set_of_no_replicas_is_accepted() -> None:
    """Scale to zero is allowed at every level."""
    assert errors(pod_clique_set(clique("a", 3), replicas=0)) == []


def test_a_set_that_would_fill_the_cluster_is_refused() -> None:
    """A typing error in a number: the sentence has both factors."""
    (problem,) = errors(pod_clique_set(clique("a"), clique("b"), replicas=60_000))
    assert problem.at == "spec.replicas"
    assert "120000" in problem.says


def test_parents_without_an_explicit_order_are_ignored_and_said() -> None:
    """Nothing waits for them."""
    raw = changed(inference(), in_clique(2, startsAfter=["leader"]))
    (problem,) = problems(raw)
    assert (problem.severity, problem.at) == ("warning", f"{CLIQUES}[2].spec.startsAfter")


def test_an_autoscaler_without_metrics_is_said() -> None:
    """It goes by CPU, which inference hardly shows."""
    (problem,) = problems(changed(inference(), in_clique(0, autoScalingConfig={"maxReplicas": 4})))
    assert (problem.severity, problem.at) == ("warning", f"{CLIQUES}[0].spec.autoScalingConfig.metrics")


def test_a_very_short_termination_delay_is_said() -> None:
    """A pod that restarts would take its gang with it."""
    (problem,) = problems(inference(terminationDelay="5s"))
    assert (problem.severity, problem.at) == ("warning", "spec.template.terminationDelay")


@pytest.mark.parametrize(
    ("change", "at", "hint"),
    [
        (in_clique(0, minAvailible=1), f"{CLIQUES}[0].spec.minAvailible", "did you mean `minAvailable`?"),
        (in_group(cliquesNames=["a"]), f"{GROUPS}[0].cliquesNames", "did you mean `cliqueNames`?"),
        (in_template(startupType="x", terminationdelay="1h"), "spec.template.terminationdelay", "`terminationDelay`"),
    ],
    ids=["clique", "group", "template"],
)
def test_a_field_that_looks_misspelt_is_said(change: Change, at: str, hint: str) -> None:
    """It is ignored: a gang would need other numbers than its manifest says."""
    said = [problem for problem in warnings(changed(inference(), change)) if problem.at == at]
    assert [hint in problem.hint for problem in said] == [True]


# topology -----------------------------------------------------------------------------------------------------------


def pack(required: str = "", preferred: str = "", name: str = "") -> Raw:
    pack = {key: value for key, value in (("required", required), ("preferred", preferred)) if value}
    return {"pack": pack, **({"topologyName": name} if name else {})}


def nested(of_set: Raw | None, of_group: Raw | None = None, of_leader: Raw | None = None) -> Raw:
    raw = inference(**({"topologyConstraint": of_set} if of_set else {}))
    if of_group:
        groups_of(raw)[0]["topologyConstraint"] = of_group
    if of_leader:
        cliques_of(raw)[1]["topologyConstraint"] = of_leader
    return raw


DC = binding("zone", "block", "rack", "host")


def test_constraints_at_three_levels_are_accepted() -> None:
    """The name of the binding is inherited."""
    raw = nested(pack("zone", name="dc"), pack("block", "rack"), pack("host"))
    assert problems(raw, around=[DC]) == []
    assert problems(raw) == []


def test_a_set_without_its_binding_is_refused() -> None:
    """It would run without the constraint."""
    (problem,) = errors(nested(pack("zone", name="cd")), around=[DC])
    assert (problem.at, problem.rule) == ("spec.template.topologyConstraint.topologyName", "R5")
    assert problem.hint == "known: dc"


def test_in_files_a_binding_may_be_elsewhere() -> None:
    """Where no binding is at hand, nothing is known of it."""
    assert errors(nested(pack("zone", name="cd"))) == []


def test_a_constraint_that_names_no_binding_is_refused() -> None:
    """Neither itself nor a part above it."""
    assert places(errors(nested(pack("zone")))) == ["spec.template.topologyConstraint.topologyName"]
    assert places(errors(nested(None, pack("rack"), pack("host")))) == [
        f"{CLIQUES}[1].topologyConstraint.topologyName",
        f"{GROUPS}[0].topologyConstraint.topologyName",
    ]
    assert errors(nested(None, pack("rack", name="dc"), pack("host"))) == []


def test_two_bindings_in_one_set_are_refused() -> None:
    """Which of them is broader cannot be said."""
    (problem,) = errors(
        nested(pack("zone", name="dc"), pack("rack", name="cd")), around=[DC, binding("rack", name="cd")]
    )
    assert problem.at == f"{GROUPS}[0].topologyConstraint.topologyName"


def test_an_unknown_domain_is_refused() -> None:
    """With the known ones."""
    (problem,) = errors(nested(pack("zone", name="dc"), pack("rak")), around=[DC])
    assert problem.at == f"{GROUPS}[0].topologyConstraint.pack.required"
    assert problem.hint == "known: zone, block, rack, host"


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        (nested(pack("rack", name="dc"), pack("zone")), f"{GROUPS}[0].topologyConstraint.pack.required"),
        (nested(pack("rack", name="dc"), None, pack("zone")), f"{CLIQUES}[1].topologyConstraint.pack.required"),
        (nested(None, pack("rack", name="dc"), pack("zone")), f"{CLIQUES}[1].topologyConstraint.pack.required"),
        (nested(pack("", "rack", name="dc"), pack("", "zone")), f"{GROUPS}[0].topologyConstraint.pack.preferred"),
    ],
    ids=["group in set", "clique in set", "clique in group", "preferred"],
)
def test_a_child_broader_than_its_parent_is_refused(raw: Raw, at: str) -> None:
    """What lies inside a rack cannot spread over a zone."""
    assert places(errors(raw, around=[DC])) == [at]


def test_without_the_binding_a_broader_child_is_only_said() -> None:
    """By Grove's own names; the binding may use them otherwise."""
    (problem,) = problems(nested(pack("rack", name="dc"), pack("zone")))
    assert (problem.severity, problem.at) == ("warning", f"{GROUPS}[0].topologyConstraint.pack.required")


def test_a_preference_broader_than_the_requirement_is_said() -> None:
    """It says nothing more."""
    (problem,) = problems(nested(pack("rack", "zone", name="dc")), around=[DC])
    assert (problem.severity, problem.at) == ("warning", "spec.template.topologyConstraint.pack.preferred")


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        (binding(), "spec.levels"),
        (binding("rack", "rack"), "spec.levels[1].domain"),
        (binding("Rack"), "spec.levels[0].domain"),
        (
            manifest(CLUSTER_TOPOLOGY_BINDINGS, "b", {"levels": [{"domain": "a", "key": "no key"}]}),
            "spec.levels[0].key",
        ),
        (
            manifest(
                CLUSTER_TOPOLOGY_BINDINGS,
                "b",
                {"levels": [{"domain": "h", "key": "kubernetes.io/hostname"}, {"domain": "a", "key": "a"}]},
            ),
            "spec.levels[0].key",
        ),
    ],
    ids=["no level", "twice", "bad domain", "bad key", "hostname first"],
)
def test_a_binding_that_no_topology_can_follow_is_refused(raw: Raw, at: str) -> None:
    """It becomes a Topology, whose levels go from broad to narrow."""
    assert at in places(errors(raw), "R5")


# updates ------------------------------------------------------------------------------------------------------------

CONSTRAINED = nested(pack("zone", name="dc"), pack("rack"))
IMMUTABLE: dict[str, tuple[Change, str]] = {
    "cliques are added": (lambda raw: cliques_of(raw).append(clique("more")), CLIQUES),
    "cliques are removed": (lambda raw: cliques_of(raw).pop(0), CLIQUES),
    "the role of a clique": (in_clique(0, roleName="other"), f"{CLIQUES}[0].spec.roleName"),
    "the minimum of a clique": (in_clique(0, minAvailable=2), f"{CLIQUES}[0].spec.minAvailable"),
    "the parents of a clique": (in_clique(2, startsAfter=["leader"]), f"{CLIQUES}[2].spec.startsAfter"),
    "the scheduler": (
        lambda raw: [one["spec"].update(pods(schedulerName="default-scheduler")) for one in cliques_of(raw)],
        f"{CLIQUES}[0].spec.podSpec.schedulerName",
    ),
    "the startup type": (in_template(cliqueStartupType=IN_ORDER), "spec.template.cliqueStartupType"),
    "groups are added": (lambda raw: groups_of(raw).append(group("more", "router")), GROUPS),
    "groups are removed": (lambda raw: groups_of(raw).pop(), GROUPS),
    "the members of a group": (in_group(cliqueNames=["leader"]), f"{GROUPS}[0].cliqueNames"),
    "the minimum of a group": (in_group(minAvailable=2), f"{GROUPS}[0].minAvailable"),
    "a constraint of the set": (
        in_template(topologyConstraint=pack("block", name="dc")),
        "spec.template.topologyConstraint.pack.required",
    ),
    "the binding": (
        in_template(topologyConstraint=pack("zone", name="cd")),
        "spec.template.topologyConstraint.topologyName",
    ),
    "a constraint is removed": (
        lambda raw: raw["spec"]["template"].pop("topologyConstraint"),
        "spec.template.topologyConstraint",
    ),
    "a constraint is added": (of_clique(0, topologyConstraint=pack("rack")), f"{CLIQUES}[0].topologyConstraint"),
    "a constraint of a group": (
        in_group(topologyConstraint=pack("host")),
        f"{GROUPS}[0].topologyConstraint.pack.required",
    ),
}


@pytest.mark.parametrize("case", IMMUTABLE)
def test_an_update_cannot_change(case: str) -> None:
    """Gangs exist that were made of it (R6)."""
    change, at = IMMUTABLE[case]
    all_errors = [problem for problem in errors(changed(CONSTRAINED, change), CONSTRAINED) if problem.rule == "R6"]
    assert at in places(all_errors)
    assert all("cannot" in problem.says and problem.hint for problem in all_errors)


@pytest.mark.parametrize("startup", [IN_ORDER, EXPLICIT])
def test_the_order_of_cliques_cannot_change_where_it_counts(startup: str) -> None:
    """Each starts after the one before it."""
    old = inference(cliqueStartupType=startup)
    new = changed(old, lambda raw: cliques_of(raw).reverse())
    (problem,) = errors(new, old)
    assert (problem.at, problem.rule) == (CLIQUES, "R6")


def test_the_order_of_cliques_may_change_where_all_start_together() -> None:
    """It means nothing there."""
    assert errors(changed(inference(), lambda raw: cliques_of(raw).reverse()), inference()) == []


MUTABLE: dict[str, Change] = {
    "replicas of the set": lambda raw: raw["spec"].update(replicas=7),
    "replicas of a clique": in_clique(0, replicas=5),
    "replicas of a group": in_group(replicas=5),
    "pod specs": in_clique(0, **pods(nodeSelector={"a": "b"})),
    "labels": of_clique(0, labels={"a": "b"}),
    "annotations": of_clique(0, annotations={"a": "b"}),
    "the priority class": in_template(priorityClassName="high"),
    "the termination delay": in_template(terminationDelay="30m"),
    "the update strategy": lambda raw: raw["spec"].update(updateStrategy={"type": "OnDelete"}),
    "autoscaling of a clique": in_clique(0, autoScalingConfig={"maxReplicas": 4, "metrics": [{"type": "Pods"}]}),
    "autoscaling of a group": in_group(scaleConfig={"maxReplicas": 4, "metrics": [{"type": "Pods"}]}),
}


@pytest.mark.parametrize("case", MUTABLE)
def test_an_update_may_change(case: str) -> None:
    """Without a word."""
    assert problems(changed(inference(), MUTABLE[case]), inference()) == []


def test_a_clique_that_names_no_scheduler_has_the_one_of_muster() -> None:
    """Beside cliques that name it, and when an update states what was left out."""
    stated = changed(inference(), in_clique(1, **pods(schedulerName="muster")))
    assert problems(stated) == []
    assert problems(stated, inference()) == []


def test_cliques_of_two_schedulers_are_refused_with_both_names() -> None:
    (problem,) = errors(changed(inference(), in_clique(1, **pods(schedulerName="default-scheduler"))))
    assert problem.says == "is `default-scheduler`, but that of clique `router` is `muster`"
    assert problem.hint == "one scheduler places all pods of a set; left out, it is muster's own"


def test_an_update_that_leaves_out_a_minimum_keeps_it() -> None:
    """A clique was created with 3 of 3; more replicas do not raise what the gang needs."""
    old, new = (pod_clique_set(clique("a", replicas)) for replicas in (3, 5))
    assert problems(new, old) == []
    (problem,) = errors(pod_clique_set(clique("a", 2)), old)
    assert (problem.at, problem.says) == (
        f"{CLIQUES}[0].spec.minAvailable",
        "needs 3, but there are 2 replicas",
    )


@pytest.mark.parametrize(
    ("change", "at"),
    [
        (in_template, "spec.template"),
        (lambda **fields: in_group(**fields), f"{GROUPS}[0]"),
        (lambda **fields: of_clique(0, **fields), f"{CLIQUES}[0]"),
    ],
)
def test_the_older_form_of_a_constraint_is_accepted_with_a_warning(change: Callable[..., Change], at: str) -> None:
    """Manifests of older releases of Grove have it (R5)."""
    raw = changed(inference(), change(topologyConstraint={"topologyName": "dc", "packDomain": "rack"}))
    assert errors(raw) == []
    (problem,) = warnings(raw)
    assert (problem.at, problem.rule) == (f"{at}.topologyConstraint.packDomain", "R5")
    assert problem.hint == "`pack: {required: rack}`"


def test_a_stored_constraint_may_be_rewritten_in_the_form_of_record() -> None:
    """`packDomain` becomes `pack.required`, and may get the name of the binding that it lacked."""
    old = inference(topologyConstraint={"packDomain": "zone"})
    assert errors(inference(topologyConstraint=pack("zone", name="dc")), old) == []
    assert errors(inference(topologyConstraint={"packDomain": "zone", "topologyName": "dc"}), old) == []
    assert places(errors(inference(topologyConstraint=pack("rack", name="dc")), old)) == [
        "spec.template.topologyConstraint.pack.required"
    ]


# scale --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "more"),
    [
        (POD_CLIQUES, {"roleName": "a", "podSpec": {"containers": []}}),
        (POD_CLIQUE_SCALING_GROUPS, {"cliqueNames": ["a"]}),
    ],
)
@pytest.mark.parametrize(("replicas", "is_refused"), [(0, False), (1, True), (2, True), (3, False), (9, False)])
def test_a_scale_below_the_minimum_is_refused_but_for_zero(
    resource: Resource, more: Raw, replicas: int, is_refused: bool
) -> None:
    """So few are never scheduled (R9)."""
    raw = manifest(resource, "w-0-a", {"replicas": replicas, "minAvailable": 3, **more})
    assert places(errors(raw), "R9") == (["spec.replicas"] if is_refused else [])


def test_a_group_is_not_scaled_beyond_what_a_set_may_have() -> None:
    """A typing error in a scale makes no million PodCliques (R9)."""
    raw = manifest(POD_CLIQUE_SCALING_GROUPS, "w-0-sg", {"replicas": 1_000_000, "cliqueNames": ["a"]})
    (problem,) = errors(raw)
    assert (problem.at, problem.rule) == ("spec.replicas", "R9")
    assert "at most 5000 PodCliques" in problem.says


def test_a_stored_scale_below_the_minimum_can_be_changed_in_all_else() -> None:
    """It may be older than the rule; its labels are still its user's."""
    stored = manifest(POD_CLIQUES, "w-0-a", {"replicas": 1, "minAvailable": 3, "roleName": "a", "podSpec": {}})
    labelled = {**stored, "metadata": {"name": "w-0-a", "labels": {"a": "b"}}}
    assert errors(labelled, stored) == []
    assert places(warnings(labelled, stored), "R9") == ["spec.replicas"]


# names that collide -------------------------------------------------------------------------------------------------


def test_a_set_named_like_a_scaled_gang_of_another_is_refused() -> None:
    """`w-0-serve` replica 0 and the first scaled gang of `w` would be one PodGang (R7)."""
    other = pod_clique_set(clique("a"), name="w-0-serve")
    for one, beside in ((other, inference()), (inference(), other)):
        (problem,) = errors(one, around=[one, beside])
        assert (problem.at, problem.rule) == ("metadata.name", "R7")
        assert "`w-0-serve-0` of a PodGang" in problem.says


def test_sets_whose_names_only_look_alike_are_accepted() -> None:
    """`w` and `w-0` share nothing, as long as no part is named by a number."""
    first, second = pod_clique_set(clique("a"), name="w"), pod_clique_set(clique("a"), name="w-0")
    assert problems(second, around=[first]) == []
    numbered = pod_clique_set(clique("0-a"), name="w")
    assert places(errors(second, around=[numbered]), "R7") == ["metadata.name"]


def test_a_collision_that_needs_more_replicas_is_said() -> None:
    """It comes with the scale; until then both sets run."""
    far = pod_clique_set(clique("a"), name="w-7-serve")
    (problem,) = problems(far, around=[inference()])
    assert (problem.severity, problem.rule) == ("warning", "R7")
    assert "once there are as many replicas" in problem.says


def test_sets_of_other_namespaces_never_collide() -> None:
    """Names count in their namespace."""
    other = pod_clique_set(clique("a"), name="w-0-serve", metadata={"namespace": "elsewhere"})
    assert problems(other, around=[inference()]) == []
