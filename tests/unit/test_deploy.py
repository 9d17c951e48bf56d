"""What is installed: manifests that fit together, rights that are exactly those needed, a chart that gives the same.

The plain manifests are the chart with its defaults, written out: MUSTER_GOLDEN=write rewrites them. Where Helm itself
is at hand, it has to give the same.
"""

import json
import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from muster import __version__, facade
from muster.api import codec, names
from muster.api.meta import ObjectMeta
from muster.api.resources import DEFINITIONS
from muster.config import loading
from muster.config import settings as config_settings
from muster.controllers.grove.operator import FED, controllers_of
from muster.grouping.table import RESOURCES
from muster.grouping.types import BUILD, INFERENCE, TRAIN, GangTree, GroupingRequest, Owner, WorkloadPod
from muster.validation.crds import crds, grove_crds, own_crds
from muster.validation.shard import Shard
from muster.webhook import admission_review
from muster.webhook.certificates.certificate_bundle import service_names
from muster.webhook.certificates.certificate_rotation import POD_WEBHOOK, POD_WEBHOOK_SECONDS
from muster.workloads.types import kinds_of
from tests.support.chart.chart import rendered
from tests.support.chart.values_schema import FILLED_IN, schema
from tests.support.factories import Raw

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "muster"
MANIFESTS = DEPLOY / "manifests"
NAMESPACE = "muster-system"
VALUES: Raw = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
ABOUT: Raw = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
PLAIN = {  # template -> plain manifest
    "namespace.yaml": "00-namespace.yaml",
    "rbac.yaml": "20-rbac.yaml",
    "config.yaml": "30-config.yaml",
    "service.yaml": "40-service.yaml",
    "networkpolicy.yaml": "45-networkpolicy.yaml",
    "deployment.yaml": "50-deployment.yaml",
    "webhook.yaml": "60-webhook.yaml",
    "grove.yaml": "70-grove-webhook.yaml",
    "conversion.yaml": "optional/conversion.yaml",
    "grouping.yaml": "optional/grouping.yaml",
    "priorityclasses.yaml": "optional/priorityclasses.yaml",
    "servicemonitor.yaml": "optional/servicemonitor.yaml",
    "metricsaccess.yaml": "optional/metrics-access.yaml",
    "dashboard.yaml": "optional/dashboard.yaml",
    "prometheusrule.yaml": "optional/prometheusrule.yaml",
    "grafanadashboard.yaml": "optional/grafana-dashboard.yaml",
}
OPTIONS: dict[str, Raw] = {
    "namespace.yaml": {"namespace.create": True},
    "conversion.yaml": {"config.webhook.convertOlderDialects": True},
    "grouping.yaml": {"config.webhook.groupPods": True},
    "priorityclasses.yaml": {"priorityClasses.create": True},
    "servicemonitor.yaml": {"serviceMonitor.enabled": True},
    "metricsaccess.yaml": {"config.observability.metricsAccess": "kubernetes"},
    "dashboard.yaml": {"config.dashboard.enabled": True},
    "prometheusrule.yaml": {"prometheusRule.enabled": True},
    "grafanadashboard.yaml": {"grafanaDashboard.enabled": True},
}


SIMULATION = {
    "apiVersion": "sim.example.com/v1",
    "kind": "Simulation",
    "resource": "simulations",
    "replicas": ".spec.n",
}


def values(**changes: Any) -> Raw:
    changed: Raw = yaml.safe_load(yaml.safe_dump(VALUES))
    for path, value in changes.items():
        holder = changed
        *way, last = path.split(".")
        for part in way:
            holder = holder[part]
        holder[last] = value
    return changed


def template(name: str, chosen: Raw | None = None, namespace: str = NAMESPACE) -> str:
    return rendered(
        CHART / "templates" / name, chosen if chosen is not None else values(**OPTIONS.get(name, {})), namespace, ABOUT
    )


def written(path: Path, text: str) -> None:
    if os.environ.get("MUSTER_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date; MUSTER_GOLDEN=write rewrites it"


def objects() -> list[Raw]:
    return [
        raw
        for path in sorted(MANIFESTS.rglob("*.yaml"))
        for raw in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def named(kind: str, name: str = "muster") -> Raw:
    (manifest,) = [raw for raw in objects() if raw["kind"] == kind and raw["metadata"]["name"] == name]
    return manifest


# the chart and the manifests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_the_manifests_are_the_chart_written_out(name: str) -> None:
    """One source; a changed template shows what it does."""
    written(MANIFESTS / PLAIN[name], template(name))


def test_every_template_has_its_manifest() -> None:
    """And no manifest stands alone, but for the CRDs and a Queue that needs muster to run already."""
    assert {path.name for path in (CHART / "templates").iterdir()} == {*PLAIN, "NOTES.txt"}
    names = {str(path.relative_to(MANIFESTS)) for path in MANIFESTS.rglob("*.yaml")}
    alone = {"10-crds.yaml", "15-grove-crds.yaml", "optional/default-queue.yaml"}
    assert names == {*alone, *PLAIN.values()}


@pytest.mark.parametrize("folder", [MANIFESTS, CHART / "crds"], ids=["plain", "chart"])
def test_the_crds_are_those_of_the_types(folder: Path) -> None:
    """As `muster crds` prints them; Grove's are a file of their own, to leave out beside Grove's own operator."""
    names = ("10-crds.yaml", "15-grove-crds.yaml") if folder == MANIFESTS else ("crds.yaml", "grove-crds.yaml")
    for name, made in zip(names, (own_crds(), grove_crds()), strict=True):
        written(folder / name, codec.to_yaml(made))


def test_what_helm_accepts_is_made_from_the_types() -> None:
    """A setting that is added to the configuration is a value of the chart, and one that is no setting is refused."""
    written(CHART / "values.schema.json", json.dumps(schema(VALUES), indent=2, ensure_ascii=False) + "\n")


def test_what_the_chart_fills_in_is_no_value() -> None:
    """It would stand there twice."""

    def keys(raw: Raw, at: str = "") -> set[str]:
        inner = [
            keys(value, f"{at}{key}.") if isinstance(value, dict) else {f"{at}{key}"} for key, value in raw.items()
        ]
        return set().union(*inner)

    settings = keys(configuration(values(certificatesSecret="mine", metricsTokenSecret="mine", shards=["a"])))
    assert settings - keys(VALUES["config"]) == FILLED_IN


def test_every_value_is_documented() -> None:
    """With a comment right above it, or above the section that it is in."""
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    sections = (
        "image:",
        "config:",
        "webhook:",
        "observability:",
        "networkPolicy:",
        "serviceMonitor:",
        "prometheusRule:",
        "grafanaDashboard:",
        "requests:",
        "limits:",
    )
    covered = ("cpu:", "memory:", "level:", "tolerations:", "priorityClasses:", *sections)
    for before, line in zip(["", *lines], lines, strict=False):
        if re.match(r"\s*[A-Za-z]+:", line) and not line.strip().startswith(covered):
            assert before.strip().startswith("#"), f"`{line.strip()}` has no comment"


def test_every_value_is_used() -> None:
    """A value that nothing reads is an empty promise."""
    texts = "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir())

    def leaves(raw: Any, at: str) -> list[str]:
        if isinstance(raw, dict) and raw and not re.search(rf"toYaml (\(omit )?\$?\.Values{at}\b(?!\.)", texts):
            return [leaf for key, value in raw.items() for leaf in leaves(value, f"{at}.{key}")]
        return [at]

    for at in leaves(VALUES, ""):
        assert f".Values{at}" in texts, at


def test_the_chart_has_the_version_of_muster() -> None:
    """And installs the image of that version."""
    assert ABOUT["appVersion"] == __version__
    assert container()["image"] == f"muster:{__version__}"


DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("changes", "template_name", "expected"),
    [
        ({"name": "gang", "image.tag": "9"}, "deployment.yaml", 'image: "muster:9"'),
        ({"image.digest": DIGEST}, "deployment.yaml", f'image: "muster:{__version__}@{DIGEST}"'),
        ({"image.digest": DIGEST}, "config.yaml", f'startupImage: "muster:{__version__}@{DIGEST}"'),
        ({"nodeSelector": {"a": "b"}}, "deployment.yaml", "nodeSelector:\n        a: b"),
        ({"tolerations": [{"operator": "Exists"}]}, "deployment.yaml", "tolerations:\n        - operator: Exists"),
        ({"certificatesSecret": "mine"}, "deployment.yaml", 'secretName: "mine"'),
        ({"metricsTokenSecret": "mine"}, "deployment.yaml", 'secretName: "mine"'),
        ({"metricsTokenSecret": "mine", **OPTIONS["servicemonitor.yaml"]}, "servicemonitor.yaml", 'name: "mine"'),
        (
            {**OPTIONS["metricsaccess.yaml"], **OPTIONS["servicemonitor.yaml"]},
            "servicemonitor.yaml",
            "bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
        ),
        ({"image.tag": "9"}, "config.yaml", 'startupImage: "muster:9"'),
        (OPTIONS["dashboard.yaml"], "deployment.yaml", "- name: dashboard\n              containerPort: 8090"),
        (
            {**OPTIONS["dashboard.yaml"], "networkPolicy.dashboardFrom": [{"podSelector": {}}]},
            "networkpolicy.yaml",
            "port: dashboard\n      from:\n        - podSelector: {}",
        ),
    ],
)
def test_options_end_where_they_should(changes: Raw, template_name: str, expected: str) -> None:
    """And what comes out is YAML still."""
    text = template(template_name, values(**changes))
    assert expected in text
    assert list(yaml.safe_load_all(text))


WEBHOOKS = ("webhook.yaml", "grove.yaml", "conversion.yaml", "grouping.yaml")


@pytest.mark.parametrize("off", [{"config.grove.enabled": False}, {"config.grove.mode": "bridge"}])
def test_beside_another_operator_its_sets_are_not_sent(off: Raw) -> None:
    """What that one supports is its own to say."""
    assert [raw for raw in yaml.safe_load_all(template("grove.yaml", values(**off))) if raw] == []


@pytest.mark.parametrize("off", [{"config.webhook.enabled": False}, {"config.scheduling.dryRun": True}])
def test_what_is_switched_off_is_not_installed(off: Raw) -> None:
    """Nothing is left of it but blanks: no webhook would answer, and `Fail` would refuse every PodGroup."""
    off = values(**off, **OPTIONS["conversion.yaml"], **OPTIONS["grouping.yaml"])
    assert [raw for name in (*WEBHOOKS, *OPTIONS) for raw in yaml.safe_load_all(template(name, off)) if raw] == []


# the configuration ----------------------------------------------------------------------------------------------------


def configuration(chosen: Raw, namespace: str = NAMESPACE) -> Raw:
    kept, *_ = yaml.safe_load_all(template("config.yaml", chosen, namespace))
    settings: Raw = yaml.safe_load(kept["data"]["config.yaml"])
    return settings


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "muster"),
        ({"name": "gang"}, "gang"),
        ({"name": "gang", "config.scheduling.schedulerNames": ["muster"]}, "muster"),
    ],
)
def test_two_of_them_do_not_share_pods(changes: Raw, name: str) -> None:
    """Each has a lease of its own, so both lead: I9 needs pods of its own for each. What is said explicitly counts."""
    assert configuration(values(**changes))["scheduling"]["schedulerNames"] == [name]


def test_another_configuration_makes_other_pods() -> None:
    """muster reads it at the start: pods that run on would go by the old one. Whatever else changes is no reason."""

    def stamp(**changes: Any) -> str:
        (deployment,) = [
            raw
            for raw in yaml.safe_load_all(template("deployment.yaml", values(**changes)))
            if raw["kind"] == "Deployment"
        ]
        checksum: str = deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        return checksum

    others: list[Raw] = [
        {"config.scheduling.dryRun": True},
        {"config.webhook.convertOlderDialects": True},
        {"config.grouping.owners": ["jobs.batch"]},
        {"name": "gang"},
    ]
    assert len({stamp(), *(stamp(**changes) for changes in others)}) == 1 + len(others)
    assert stamp() == stamp(replicas=3) == stamp(**{"image.pullPolicy": "Always"})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": "gang", "config.log.level": "debug", "config.leaderElection": {"leaseSeconds": 30}},
        {"certificatesSecret": "mine", "config.webhook.certificates": {"checkSeconds": 10}},
        {"config.scheduling.schedulerNames": ["another", "kai-scheduler"]},
        {"config.webhook.host": "::", "config.webhook.maxBodyBytes": 2**20, "config.webhook.concurrency": 8},
        {"config.webhook.groupPods": True, "config.grouping.owners": [], "config.grouping.kinds": [SIMULATION]},
        {"config.consolidation": {"maxPods": 3}, "config.disturbance": {"maxShare": 1}},
        {"config.grove.mode": "bridge", "config.grove.startupImage": "other:1"},
        {"metricsTokenSecret": "mine", "config.tracing": {"endpoint": "http://collector:4318/v1/traces"}},
        {"config.observability.metricsAccess": "kubernetes"},
        {"config.dashboard": {"enabled": True, "port": 8091, "allowedHosts": ["muster.example"], "maxViewers": 5}},
    ],
)
def test_the_configuration_is_accepted(changes: Raw) -> None:
    """By the reader that `muster run` uses; names, ports and namespaces are those of the other objects."""
    chosen = values(**changes)
    read = loading.read(yaml.safe_dump(configuration(chosen, "elsewhere")).encode(), "c")
    name = chosen["name"]
    (service, _) = yaml.safe_load_all(template("service.yaml", chosen, "elsewhere"))
    host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert service_names(read.webhook.certificates)[0] == host
    assert (read.leader_election.lease_name, read.leader_election.lease_namespace) == (name, "elsewhere")
    assert read.webhook.configuration_name == name
    assert read.webhook.certificates.source == ("files" if chosen["certificatesSecret"] else "generated")
    for setting, value in changes.items():
        if setting.startswith("config.webhook.") and not isinstance(value, dict):
            assert msgspec.to_builtins(read.webhook)[setting.rpartition(".")[2]] == value
    image = chosen["config"]["grove"]["startupImage"] or f"muster:{ABOUT['appVersion']}"
    assert read.grove.startup_image == image
    for section in ("grouping", "grove", "consolidation", "disturbance", "tracing"):
        settings = getattr(read, section)
        stated = chosen["config"][section] | ({"startupImage": image} if section == "grove" else {})
        assert settings == msgspec.convert(stated, type(settings))
    if not changes:
        installed = loading.read(named("ConfigMap")["data"]["config.yaml"].encode(), "c")
        assert installed == config_settings.Config(
            grove=config_settings.GroveOperator(startup_image=image),
            dashboard=config_settings.Dashboard(host="0.0.0.0", access="kubernetes"),  # once it is enabled
        )


def test_one_list_of_values_makes_shards() -> None:
    """Each with pods, configuration, lease and metrics of its own; one account and one webhook for all."""
    chosen = values(shards=["a100", "h100"], nodePoolLabelKey="example.com/pool")
    made = [
        raw
        for name in ("config.yaml", "deployment.yaml", "service.yaml", "rbac.yaml")
        for raw in yaml.safe_load_all(template(name, chosen))
    ]
    kinds = {kind: [raw for raw in made if raw["kind"] == kind] for kind in {raw["kind"] for raw in made}}
    names = ["muster", "muster-a100", "muster-h100"]
    for kind in ("Deployment", "ConfigMap", "PodDisruptionBudget"):
        assert [raw["metadata"]["name"] for raw in kinds[kind]] == names
    leases = {name for rule in kinds["Role"][0]["rules"] for name in rule.get("resourceNames", ()) if "web" not in name}
    assert leases == set(names)
    for name, pool, deployment, raw in zip(
        names, ("", "a100", "h100"), kinds["Deployment"], kinds["ConfigMap"], strict=True
    ):
        read = loading.read(raw["data"]["config.yaml"].encode(), "c")
        assert read.scheduling.shard.chosen == Shard(pool, "example.com/pool")
        assert (read.lease_name, read.scheduling.scheduler_names) == (name, ("muster",))
        spec = deployment["spec"]["template"]["spec"]
        assert spec["serviceAccountName"] == "muster"
        assert spec["volumes"][0]["configMap"]["name"] == name
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["spec"]["selector"]["matchLabels"] == labels == {"app.kubernetes.io/name": name}
    selected = {raw["metadata"]["name"]: raw["spec"]["selector"]["app.kubernetes.io/name"] for raw in kinds["Service"]}
    assert selected == {"muster-webhook": "muster", **{f"{name}-metrics": name for name in names}}
    monitored = [raw for raw in kinds["Service"] if "app.kubernetes.io/component" in raw["metadata"]["labels"]]
    assert {raw["metadata"]["labels"]["app.kubernetes.io/name"] for raw in monitored} == {"muster"}, (
        "one ServiceMonitor"
    )


def test_cliques_start_in_order_by_the_image_of_the_deployment() -> None:
    """A cluster that pulls from a registry of its own needs no second setting; what is stated wins."""
    own = {"image.repository": "registry.example.com/muster", "image.tag": "9"}
    containers = next(
        raw["spec"]["template"]["spec"]["containers"]
        for raw in yaml.safe_load_all(template("deployment.yaml", values(**own)))
        if raw["kind"] == "Deployment"
    )
    image = configuration(values(**own))["grove"]["startupImage"]
    assert image == containers[0]["image"] == "registry.example.com/muster:9"
    stated = configuration(values(**own, **{"config.grove.startupImage": "other:1"}))
    assert stated["grove"]["startupImage"] == "other:1"


# Helm itself ----------------------------------------------------------------------------------------------------------

HELM = shutil.which("helm")
EVERY_OPTION = [f"{path}={str(value).lower()}" for option in OPTIONS.values() for path, value in option.items()]
helm_is_there = pytest.mark.skipif(HELM is None, reason="needs Helm: there is no `helm` on PATH")


def helm(verb: str, *words: str, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    named = ["muster"] if verb == "template" else []
    command = [HELM, verb, *named, str(CHART), "--namespace", namespace, "--kube-version", "1.36.0", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def templated(*settings: str, namespace: str = NAMESPACE) -> dict[tuple[str, str], Raw]:
    """By kind and name, with values as `--set` takes them."""
    completed = helm("template", *(word for setting in settings for word in ("--set", setting)), namespace=namespace)
    assert completed.returncode == 0, completed.stderr
    return {(raw["kind"], raw["metadata"]["name"]): raw for raw in yaml.safe_load_all(completed.stdout) if raw}


@helm_is_there
def test_helm_finds_nothing_to_complain_about() -> None:
    """With the values as they are, and with every option on."""
    for words in ((), ("--set", f"{','.join(EVERY_OPTION)},certificatesSecret=mine")):
        completed = helm("lint", "--strict", *words)
        assert completed.returncode == 0, completed.stdout


@helm_is_there
@pytest.mark.parametrize("optional", [False, True], ids=["defaults", "options"])
def test_helm_gives_the_manifests(optional: bool) -> None:
    """Object by object; options change the configuration, and so the stamp on the pods, and nothing else."""
    options = EVERY_OPTION if optional else []
    kept = [path for name, path in PLAIN.items() if optional or name not in OPTIONS]
    wanted = {
        (raw["kind"], raw["metadata"]["name"]): raw
        for path in kept
        for raw in yaml.safe_load_all((MANIFESTS / path).read_text(encoding="utf-8"))
    }
    rendered = templated(*options)
    if optional:
        chosen = values(**OPTIONS["conversion.yaml"], **OPTIONS["grouping.yaml"])
        wanted["ConfigMap", "muster"] = next(yaml.safe_load_all(template("config.yaml", chosen)))
        _, wanted["Deployment", "muster"], _ = yaml.safe_load_all(template("deployment.yaml", chosen))
    assert rendered == wanted


@helm_is_there
def test_helm_gives_the_rights_of_what_is_listed() -> None:
    """As the small renderer does: kinds of every group, also of none, and kinds of users."""
    kinds = [{**SIMULATION, "apiVersion": version} for version in ("sim.example.com/v1", "v1")]
    chosen = values(
        **{"config.grouping.owners": ["replicationcontrollers", "jobs.batch"], "config.grouping.kinds": kinds}
    )
    settings = [
        f"config.grouping.kinds[{i}].{key}={word}" for i, kind in enumerate(kinds) for key, word in kind.items()
    ]
    role = templated("config.grouping.owners={replicationcontrollers,jobs.batch}", *settings)["ClusterRole", "muster"]
    _, wanted, *_ = yaml.safe_load_all(template("rbac.yaml", chosen))
    assert role == wanted


@helm_is_there
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("config.leaderElection.leaseName=x", "leaseName"),
        ("config.webhook.configurationName=x", "configurationName"),
        ("config.webhook.certificates.secretName=x", "secretName"),
        ("config.webhook.certificates.source=files", "source"),
        ("name=123", "got number, want string"),
        ("name=Muster", "does not match pattern"),
        ("image.digest=latest", "does not match pattern"),
        ("replicas=two", "got string, want integer"),
        ("replica=3", "replica"),
        ("config.webhook.failurepolicy=Ignore", "failurepolicy"),
        ("config.webhook.failurePolicy=ignore", "failurePolicy"),
        ("config.webhook.timeoutSeconds=99", "maximum: got 99, want 30"),
        ("config.scheduling=null", "scheduling"),
        ("config.webhook=null", "webhook"),
        ("config.webhook.port=null", "port"),
        ("config.observability=null", "observability"),
        ("config.log=null", "log"),
        ("config=null", "config"),
        ("serviceMonitor.interval=30", "got number, want string"),
        ("config.grouping=null", "grouping"),
        ("config.grouping.owners=null", "owners"),
        ("config.grouping.owners={Jobs}", "does not match pattern"),
        ("config.grouping.kinds[0].kind=Simulation", "apiVersion"),
        ("priorityClasses.create=yes", "got string, want boolean"),
    ],
)
def test_helm_refuses_what_muster_would(setting: str, expected: str) -> None:
    """Before anything is installed, and with the name of the value."""
    completed = helm("template", "--set", setting)
    assert completed.returncode != 0
    assert "values don't meet the specifications of the schema" in completed.stderr
    assert expected in completed.stderr
    assert "nil pointer" not in completed.stderr


@helm_is_there
@pytest.mark.parametrize(
    ("settings", "namespace"),
    [
        ([], "123"),
        ([], "null"),
        (["name=true-muster"], "elsewhere"),
        (["certificatesSecret=mine"], NAMESPACE),
        (["name=gang", "config.leaderElection.leaseSeconds=30", "config.webhook.maxBodyBytes=8388608"], "elsewhere"),
        (["config.webhook.certificates.validityDays=60", "global.region=x"], NAMESPACE),
    ],
)
def test_muster_accepts_what_helm_makes(settings: list[str], namespace: str) -> None:
    """By the reader that `muster run` uses; names and namespaces that look like something else are words still."""
    rendered = templated(*settings, namespace=namespace)
    name = next(raw["metadata"]["name"] for (kind, _), raw in rendered.items() if kind == "Deployment")
    read = loading.read(rendered["ConfigMap", name]["data"]["config.yaml"].encode(), "c")
    assert (read.scheduling.scheduler_names, read.leader_election.lease_name) == ((name,), name)
    assert (read.leader_election.lease_namespace, read.webhook.certificates.namespace) == (namespace, namespace)
    assert {raw["metadata"].get("namespace", namespace) for raw in rendered.values()} == {namespace}
    mounted = [volume["name"] for volume in rendered["Deployment", name]["spec"]["template"]["spec"]["volumes"]]
    assert (read.webhook.certificates.source == "files") == ("certificates" in mounted)


@helm_is_there
def test_helm_makes_other_pods_for_another_configuration() -> None:
    """As the small renderer does."""
    stamps = [
        templated(*settings)["Deployment", "muster"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for settings in ([], ["replicas=3"], ["config.scheduling.dryRun=true"], ["config.log.level=debug"])
    ]
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == 3


# the objects ----------------------------------------------------------------------------------------------------------


def container() -> Raw:
    (only,) = named("Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("raw", objects(), ids=lambda raw: f"{raw['kind']}-{raw['metadata']['name']}")
def test_every_object_is_whole(raw: Raw) -> None:
    """A kind, a name that Kubernetes accepts, the namespace where it has one, and the label that finds it."""
    cluster_scoped = re.search("Cluster|Namespace|Definition|Configuration$|PriorityClass|Queue", raw["kind"])
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", raw["metadata"]["name"])
    assert raw["metadata"].get("namespace") == (None if cluster_scoped else NAMESPACE)
    if raw["kind"] != "CustomResourceDefinition":
        assert raw["metadata"]["labels"]["app.kubernetes.io/name"] == "muster"


def test_no_object_is_given_twice() -> None:
    """Of two, one would win."""
    keys = [(raw["apiVersion"], raw["kind"], raw["metadata"]["name"]) for raw in objects()]
    assert len(keys) == len(set(keys))


def test_selectors_find_the_pods() -> None:
    """Of the Deployment, the budget, the spread and both Services; ports by their names."""
    deployment = named("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    spread = deployment["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
    services = [named("Service", name)["spec"] for name in ("muster-webhook", "muster-metrics")]
    for selector in (
        deployment["selector"]["matchLabels"],
        spread,
        named("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        named("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(service["selector"] for service in services),
    ):
        assert selector.items() <= labels
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {"webhook": config_settings.Webhook().port, "http": config_settings.Observability().port}
    assert [service["ports"][0]["targetPort"] for service in services] == ["webhook", "http"]
    monitor = named("ServiceMonitor")["spec"]
    assert (
        monitor["selector"]["matchLabels"].items() <= named("Service", "muster-metrics")["metadata"]["labels"].items()
    )
    assert monitor["endpoints"][0]["port"] == "http"


def test_only_the_two_ports_are_open() -> None:
    """To everyone by default: no manifest knows the addresses of API servers; a value names them."""
    policy = named("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert [rule["ports"] for rule in policy["ingress"]] == [
        [{"protocol": "TCP", "port": name}] for name in ("webhook", "http")
    ]
    assert not any("from" in rule for rule in policy["ingress"])
    servers, prometheus = {"ipBlock": {"cidr": "10.0.0.0/28"}}, {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    chosen = values(**{"networkPolicy.webhookFrom": [servers], "networkPolicy.metricsFrom": [prometheus]})
    (raw,) = yaml.safe_load_all(template("networkpolicy.yaml", chosen))
    assert [rule["from"] for rule in raw["spec"]["ingress"]] == [[servers], [prometheus]]
    off = template("networkpolicy.yaml", values(**{"networkPolicy.enabled": False}))
    assert not any(yaml.safe_load_all(off))


def test_the_pods_are_modest() -> None:
    """Non-root, nothing to gain, nothing to write to, bounded, probed, and two of them."""
    spec = named("Deployment")["spec"]
    assert spec["replicas"] == 2
    pod, main = spec["template"]["spec"], container()
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert main["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(main["resources"]) == {"requests", "limits"}
    assert main["resources"]["limits"]["memory"]
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert main[probe]["httpGet"] == {"path": path, "port": "http"}
    mounts = {mount["name"] for mount in main["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    labels = named("Namespace", NAMESPACE)["metadata"]["labels"]
    assert [labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")] == ["restricted"] * 3


def test_some_replica_answers_while_pods_come_and_go() -> None:
    """A new pod before the old one goes, and that one until no request is sent to it; a node can always be drained."""
    deployment, budget = named("Deployment")["spec"], named("PodDisruptionBudget")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert {key: value for key, value in budget.items() if key != "selector"} == {"maxUnavailable": 1}
    assert container()["lifecycle"]["preStop"] == {"exec": {"command": ["sleep", "5"]}}
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] >= 5 + 20


@pytest.mark.parametrize("chosen", ["system-cluster-critical", "mine"])
def test_a_quota_allows_pods_of_their_priority(chosen: str) -> None:
    """Some providers refuse critical pods in a namespace that has none."""
    quota, deployment, _ = yaml.safe_load_all(template("deployment.yaml", values(priorityClassName=chosen)))
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": [chosen]}
    assert deployment["spec"]["template"]["spec"]["priorityClassName"] == chosen
    assert int(quota["spec"]["hard"]["pods"]) > deployment["spec"]["replicas"] + 1
    assert quota["metadata"]["namespace"] == deployment["metadata"]["namespace"]


def test_no_priority_needs_no_quota() -> None:
    """A quota for no class would be refused."""
    rendered = list(yaml.safe_load_all(template("deployment.yaml", values(priorityClassName=""))))
    assert [raw["kind"] for raw in rendered if raw] == ["Deployment", "PodDisruptionBudget"]


def test_writes_of_muster_itself_skip_the_webhook() -> None:
    """S2: what it notes on PodGroups must not depend on its webhook being reachable."""
    account = named("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    for kind, name in product(("Validating", "Mutating"), ("muster", "muster-grove")):
        (hook,) = named(f"{kind}WebhookConfiguration", name)["webhooks"]
        (condition,) = hook["matchConditions"]
        assert condition["expression"] == f'request.userInfo.username != "system:serviceaccount:{NAMESPACE}:{account}"'


def pod_webhook(**changes: Any) -> Raw:
    configured = yaml.safe_load(template("grouping.yaml", values(**OPTIONS["grouping.yaml"], **changes)))
    (hook,) = configured["webhooks"]
    assert configured["metadata"]["name"] == values(**changes)["name"] + "-pods"
    assert isinstance(hook, dict)
    return hook


def test_pods_never_wait_for_muster() -> None:
    """Nothing but new pods is sent, without an answer soon they are created as they are, and muster and the system are
    left out: they must start without it.
    """
    hook = pod_webhook()
    assert (hook["name"], hook["clientConfig"]["service"]["path"]) == (POD_WEBHOOK, "/group")
    (rule,) = hook["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == ([""], ["pods"], ["CREATE"])
    assert (hook["failurePolicy"], hook["sideEffects"], hook["reinvocationPolicy"]) == ("Ignore", "None", "IfNeeded")
    assert hook["timeoutSeconds"] == POD_WEBHOOK_SECONDS
    assert "caBundle" not in hook["clientConfig"]
    (left_out,) = hook["namespaceSelector"]["matchExpressions"]
    assert left_out == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", NAMESPACE],
    }


@pytest.mark.parametrize(
    ("changes", "schedulers"),
    [
        ({}, '["muster"]'),
        ({"name": "gang"}, '["gang"]'),
        ({"config.scheduling.schedulerNames": ["muster", "kai-scheduler"]}, '["muster","kai-scheduler"]'),
    ],
)
def test_only_pods_of_muster_without_a_group_are_sent(changes: Raw, schedulers: str) -> None:
    """Those that `grouping.eligibility` would group; the API server itself leaves out all others."""
    conditions = {each["name"]: each["expression"] for each in pod_webhook(**changes)["matchConditions"]}
    assert conditions.pop("is-ours") == f"object.spec.schedulerName in {schedulers}"
    assert sorted(conditions.values()) == sorted(
        f'!has(object.metadata.{field}) || !("{name}" in object.metadata.{field})'
        for field, name in (
            ("annotations", names.POD_GROUP),
            ("annotations", names.SKIP_GROUPING),
            ("labels", names.SKIP_GROUPING),
        )
    )


def test_without_the_grouper_no_pods_are_sent() -> None:
    """Nothing would come of it but time."""
    off = values(**OPTIONS["grouping.yaml"], **{"config.grouping.enabled": False})
    assert yaml.safe_load(template("grouping.yaml", off)) is None


def test_priority_classes_are_those_of_the_kinds() -> None:
    """Every class that a kind has by default, and none that pods get without asking for it."""
    classes = list(yaml.safe_load_all(template("priorityclasses.yaml")))
    numbers = {raw["metadata"]["name"]: raw["value"] for raw in classes}
    assert numbers == {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
    assert {TRAIN, BUILD, INFERENCE} <= set(numbers)
    assert all(raw["globalDefault"] is False and raw["description"] for raw in classes)


def test_the_default_queue_is_unlimited() -> None:
    """As the one that exists while there is no Queue (Q2): pods without a queue run on as before."""
    queue = named("Queue", names.DEFAULT_QUEUE)
    assert queue["spec"]["resources"] == {
        resource: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for resource in ("gpu", "cpu", "memory")
    }
    assert facade.validate(queue) == []


@pytest.mark.parametrize("changes", [{}, {"config.webhook.groupPods": True}, {"config.grouping.enabled": False}])
def test_notes_tell_how_to_begin(changes: Raw) -> None:
    """What Helm prints names the scheduler, and what is switched off."""
    text = template("NOTES.txt", values(**changes))
    assert "schedulerName: muster" in text
    assert ("The pod grouper is off" in text) == ("config.grouping.enabled" in changes)


@pytest.mark.parametrize(
    ("kind", "name", "path", "kinds"),
    [
        ("ValidatingWebhookConfiguration", "muster", "/validate", admission_review.VALIDATED_KINDS),
        ("MutatingWebhookConfiguration", "muster", "/mutate", admission_review.VALIDATED_KINDS[:1]),
        ("ValidatingWebhookConfiguration", "muster-grove", "/validate", admission_review.GROVE_KINDS),
        ("MutatingWebhookConfiguration", "muster-grove", "/mutate", admission_review.GROVE_KINDS[:1]),
    ],
)
def test_the_webhook_covers_what_it_validates(kind: str, name: str, path: str, kinds: Any) -> None:
    """Exactly those kinds, creates and updates. How it fails is only muster's to write: applying
    the manifest again changes nothing of it. Until then the API server's own default holds, which is to let nothing in.
    """
    (hook,) = named(kind, name)["webhooks"]
    assert hook["clientConfig"]["service"] == {
        "name": "muster-webhook",
        "namespace": NAMESPACE,
        "path": path,
        "port": 443,
    }
    plurals = {
        (f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}", crd["spec"]["names"]["kind"]): crd["spec"][
            "names"
        ]["plural"]
        for crd in crds()
    }
    covered = {(f"{rule['apiGroups'][0]}/{rule['apiVersions'][0]}", rule["resources"][0]) for rule in hook["rules"]}
    assert covered == {(one[0], plurals[one]) for one in kinds}
    assert all(rule["operations"] == ["CREATE", "UPDATE"] for rule in hook["rules"])
    assert not {"failurePolicy", "timeoutSeconds"} & set(hook)
    assert "caBundle" not in hook["clientConfig"]
    assert hook["sideEffects"] == "None"
    assert hook["admissionReviewVersions"] == ["v1"]


# rights ---------------------------------------------------------------------------------------------------------------

WATCHED = {
    "": ("nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims"),
    "scheduling.k8s.io": ("priorityclasses",),
    "policy": ("poddisruptionbudgets",),
    "storage.k8s.io": ("storageclasses",),
    "scheduling.run.ai": ("podgroups", "queues"),
    "kai.scheduler": ("topologies",),
}
# Every call of the control plane to the API server: group, resource, verb, the name where it is always the same.
CALLS = {
    *(
        (group, resource, verb, "")
        for group, many in WATCHED.items()
        for resource in many
        for verb in ("list", "watch")
    ),
    ("", "pods", "get", ""),  # scheduler.apply.pod_api: what became of an unconfirmed write
    ("", "pods/binding", "create", ""),  # scheduler.apply
    ("", "pods/eviction", "create", ""),  # scheduler.apply
    ("", "persistentvolumeclaims", "patch", ""),  # scheduler.apply.volume_binder: the selected node
    ("", "pods/status", "patch", ""),  # control.status: PodScheduled, nominatedNodeName
    ("scheduling.run.ai", "podgroups/status", "patch", ""),  # control.status
    ("scheduling.run.ai", "queues/status", "patch", ""),
    ("scheduling.run.ai", "podgroups", "patch", ""),  # timestamps of S2 and of run times; apply of the grouper
    ("", "events", "create", ""),  # scheduler.status
    ("", "events", "patch", ""),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get", "muster"),  # server.certificates
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "patch", "muster"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "get", "muster"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "patch", "muster"),
    *(
        ("admissionregistration.k8s.io", f"{kind}webhookconfigurations", verb, "muster-grove")
        for kind in ("validating", "mutating")
        for verb in ("get", "patch")
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "get", "muster-pods"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "patch", "muster-pods"),
}
READS = (
    "get",
    "list",
    "watch",
)  # controllers.grouper.owner_cache: one watch a kind; a read before one counts as missing
CALLS_OF_GROUPING = {  # what only the pod grouper calls
    ("scheduling.run.ai", "podgroups", "create", ""),  # controllers.grouper: an apply that creates
    ("scheduling.run.ai", "podgroups", "delete", ""),  # those without pods; and an apply that changes owner references
    ("", "pods", "patch", ""),  # annotations and label
    *((group, plural, verb, "") for plural, _, group in (r.partition(".") for r in RESOURCES) for verb in READS),
}
_PARTS = ("podcliquesets", "podcliques", "podcliquescalinggroups")
_WHOLE = ("get", "list", "watch", "create", "patch", "delete")
CALLS_OF_BRIDGE = {  # what is called with every mode of `grove`
    *(("grove.io", kind, verb, "") for kind in _PARTS for verb in ("list", "watch")),
    *(("grove.io", "clustertopologybindings", verb, "") for verb in ("list", "watch")),
    *(("scheduler.grove.io", "podgangs", verb, "") for verb in READS),
    ("scheduler.grove.io", "podgangs/status", "update", ""),  # kube.controller.status_queue
    ("scheduler.grove.io", "podgangs/finalizers", "update", ""),  # owners of PodGroups block deletion
    *(("scheduling.run.ai", "podgroups", verb, "") for verb in ("get", "create", "delete")),  # grove.gangs
    ("", "pods", "patch", ""),  # gates, annotations and labels
    *(("apiextensions.k8s.io", "customresourcedefinitions", verb, "") for verb in ("list", "watch")),
}
CALLS_OF_OPERATOR = (
    CALLS_OF_BRIDGE
    | {  # a `get` is of a name that exists already, or of what an orphan may belong to
        *(("grove.io", kind, verb, "") for kind in _PARTS[1:] for verb in _WHOLE),
        *(("grove.io", "podcliquesets", verb, "") for verb in ("get", "patch")),  # its finalizer
        *(("grove.io", f"{kind}/{part}", "update", "") for kind in _PARTS for part in ("status", "finalizers")),
        *(("scheduler.grove.io", "podgangs", verb, "") for verb in ("create", "patch", "delete")),
        *(("", "pods", verb, "") for verb in ("create", "delete")),
        *(("", "services", verb, "") for verb in _WHOLE),
        *(("autoscaling", "horizontalpodautoscalers", verb, "") for verb in _WHOLE),
        *(("grove.io", f"clustertopologybindings/{part}", "update", "") for part in ("status", "finalizers")),
        ("grove.io", "clustertopologybindings", "get", ""),
        *(("kai.scheduler", "topologies", verb, "") for verb in ("get", "create", "patch", "delete")),
    }
)
CALLS_AT_HOME = {  # only in muster's own namespace
    ("coordination.k8s.io", "leases", "create", ""),  # control: leader election; a create has no name to be limited to
    ("coordination.k8s.io", "leases", "get", "muster"),
    ("coordination.k8s.io", "leases", "update", "muster"),
    ("", "secrets", "get", "muster-webhook-certificates"),  # server.sources
    ("", "secrets", "update", "muster-webhook-certificates"),
}


def rights(role: Raw) -> set[tuple[str, ...]]:
    return {
        (group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def rights_with(**changes: Any) -> set[tuple[str, ...]]:
    """Of the ClusterRole that the chart makes of these values."""
    (role,) = [
        raw for raw in yaml.safe_load_all(template("rbac.yaml", values(**changes))) if raw["kind"] == "ClusterRole"
    ]
    return rights(role)


@pytest.mark.parametrize(
    ("kind", "calls"),
    [("ClusterRole", CALLS | CALLS_OF_GROUPING | CALLS_OF_OPERATOR), ("Role", CALLS_AT_HOME)],
    ids=["cluster", "home"],
)
def test_rights_are_exactly_those_needed(kind: str, calls: set[tuple[str, ...]]) -> None:
    """Nothing is missing, and nothing is there that no call needs: no wildcard, no name left open."""
    granted = rights(named(kind))
    assert granted == calls
    assert not any("*" in word for call in granted for word in call)


def test_every_kind_that_is_grouped_may_be_read() -> None:
    """The list in the values is that of the table of kinds: a kind that is added there is read from the start."""
    assert VALUES["config"]["grouping"]["owners"] == list(RESOURCES)


def test_without_the_grouper_its_rights_are_gone() -> None:
    """Alone, muster changes nothing of pods but their status; an operator keeps what it needs itself."""
    assert rights_with(**{"config.grouping.enabled": False}) == CALLS | CALLS_OF_OPERATOR
    assert rights_with(**{"config.grouping.enabled": False, "config.grove.enabled": False}) == CALLS


@pytest.mark.parametrize(
    ("changes", "calls"),
    [
        ({"config.grove.enabled": False}, set()),
        ({"config.grove.enabled": False, "config.grove.mode": "bridge"}, set()),
        ({"config.grove.mode": "bridge"}, CALLS_OF_BRIDGE),
    ],
)
def test_beside_another_operator_muster_makes_no_pods(changes: Raw, calls: set[tuple[str, ...]]) -> None:
    """Nor Services, cliques or gangs; switched off, it does not even read them."""
    assert rights_with(**changes) == CALLS | CALLS_OF_GROUPING | calls


def test_every_kind_that_an_operator_watches_may_be_read() -> None:
    """In each mode exactly those, beside what the scheduler watches itself."""
    granted = {"operator": rights_with(), "bridge": rights_with(**{"config.grove.mode": "bridge"})}
    for mode, calls in granted.items():
        controllers = controllers_of(config_settings.GroveOperator(mode=mode), ["muster"])
        kinds = {kind for controller in controllers.values() for kind in kinds_of(controller)} - {*FED}
        assert {(kind.group, kind.plural, verb, "") for kind in kinds for verb in ("list", "watch")} <= calls
        read = {call[:2] for call in CALLS_OF_OPERATOR & calls if call[2] == "watch"}
        assert read == {(kind.group, kind.plural) for kind in (*kinds, DEFINITIONS)}


def test_nothing_is_read_that_is_not_listed() -> None:
    """The role and the configuration have the same list: what is taken from it is neither allowed nor tried."""
    listed = ["jobs.batch", "leaderworkersets.leaderworkerset.x-k8s.io", "replicationcontrollers"]
    owners = {("batch", "jobs"), ("leaderworkerset.x-k8s.io", "leaderworkersets"), ("", "replicationcontrollers")}
    granted = rights_with(**{"config.grouping.owners": listed, "config.grove.enabled": False})
    writes = {call for call in CALLS_OF_GROUPING if call[2] not in READS}
    assert granted == CALLS | writes | {(*owner, verb, "") for owner in owners for verb in READS}
    read = loading.read(yaml.safe_dump(configuration(values(**{"config.grouping.owners": listed}))).encode(), "c")
    assert list(read.grouping.resources) == listed


def test_the_kind_in_the_guide_is_accepted() -> None:
    """As it stands there, by the reader that `muster run` uses, and with the PodGroup that the guide promises."""
    guide = (DEPLOY.parent / "docs" / "guides" / "operations.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(grouping:.*?)```", guide, re.DOTALL)
    read = loading.read(example.encode(), "the guide")
    (rule,) = read.grouping.rules
    roles = [{"name": "solver", "count": 8, "minAvailable": 6}, {"name": "viewer", "count": 1}]
    owner = Owner("sim.example.com/v1", "Simulation", ObjectMeta(name="s", uid="u"), {"roles": roles})
    pod = WorkloadPod(ObjectMeta(name="p", labels={"sim.example.com/role": "viewer"}))
    gang = rule.rule(GroupingRequest(pod, owner, (owner,)))
    assert isinstance(gang, GangTree)
    assert gang.leaf == "viewer"
    assert [(group.name, group.min_member) for group in gang.sub_groups] == [("solver", 6), ("viewer", 1)]


@pytest.mark.parametrize(("api_version", "group"), [("sim.example.com/v1", "sim.example.com"), ("v1", "")])
def test_kinds_of_users_may_be_read(api_version: str, group: str) -> None:
    """A kind that the configuration describes needs no other change."""
    kind = {**SIMULATION, "apiVersion": api_version}
    more = rights_with(**{"config.grouping.kinds": [kind]}) - rights_with()
    assert more == {(group, "simulations", verb, "") for verb in READS}


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_rights_are_given_to_the_pods(kind: str) -> None:
    """To their service account and no other."""
    binding = named(f"{kind}Binding")
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "muster"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "muster", "namespace": NAMESPACE}]
    assert (
        named("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
        == named("ServiceAccount")["metadata"]["name"]
    )


# the image ------------------------------------------------------------------------------------------------------------


def test_the_image_has_nothing_to_build_with() -> None:
    """Two stages of one base, a user that is not root, nothing but the environment copied, no arguments."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    stages = [i for i, line in enumerate(lines) if line.startswith("FROM ")]
    assert len(stages) == 2
    bases = [lines[i].split()[1] for i in stages]
    assert len(set(bases)) == 1, "what was built with one Python runs with the same"
    assert bases[0] == "${BASE}"
    assert "ARG BASE" in lines[: stages[0]], "by digest, and no default: a tag is another image tomorrow"
    final = lines[stages[1] :]
    user = [line for line in final if line.startswith("USER ")][-1].split()[1]
    assert user == "65532:65532"
    uid = named("Deployment")["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert user.startswith(f"{uid}:")
    assert [line for line in final if line.startswith("COPY ")] == ["COPY --from=build /opt/muster /opt/muster"]
    assert final[-2:] == ['ENTRYPOINT ["muster"]', 'CMD ["--help"]']
    assert not re.search(r"apt|curl|wget|gcc|\bADD\b|^ARG|sudo|latest|useradd", "\n".join(final))
    assert "uv sync --frozen --no-dev" in text
    assert re.search(r"pip install --no-cache-dir 'uv==\d", text)


def test_what_the_image_needs_is_there() -> None:
    """Every file that is copied into the build."""
    root = DEPLOY.parent
    for line in (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            assert all((root / name).exists() for name in line.split()[1:-1]), line
