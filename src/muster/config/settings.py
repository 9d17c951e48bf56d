"""Every setting of the control plane: one file, one type; each has a default, its unit in its name, and a reason.

Rule 1: a file with unknown keys, values of a wrong type or out of range, or settings that contradict each other is
refused, with all problems at once. Rule 2: no setting is a secret: credentials come from the kubeconfig or the service
account, keys from the Secret or the folder that a setting names.

Long because: a reader finds every setting in one file.
"""

import re
from hashlib import blake2b
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec.structs import FieldInfo

from muster.api.meta import Wire, doc
from muster.api.names import DEFAULT_SCHEDULER, NODE_POOL
from muster.grouping.custom_kinds import CustomKind, custom_rule
from muster.grouping.table import RESOURCES, KindRule
from muster.planning.policy import Policy
from muster.validation.shard import Shard

Level = Literal["debug", "info", "warning", "error"]
FAILURE_POLICIES = ("Fail", "Ignore")
SOURCES = ("generated", "files")
METRICS_ACCESS = ("open", "kubernetes", "token-file")
DASHBOARD_ACCESS = ("loopback", "kubernetes")
GROVE_MODES = ("operator", "bridge")
LEVELS: tuple[Level, ...] = get_args(Level)

_HOUR, _DAYS = 3600, 3650
_PORT: dict[str, Any] = {"minimum": 1, "maximum": 65535}
NAME: dict[str, Any] = {"maxLength": 253, "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
LABEL: dict[str, Any] = {"maxLength": 63, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}


def _between(least: int, most: int) -> dict[str, Any]:
    return {"minimum": least, "maximum": most}


class ShardSettings(Wire, frozen=True):
    """One pool of nodes, with its queues and PodGroups; several musters share a cluster by pools (guides/shards.md)."""

    enabled: Annotated[bool, doc("Off: all nodes, queues and PodGroups, whatever their labels say.")] = False
    node_pool_label_key: Annotated[
        str, doc("The label of nodes, Queues and PodGroups that names their pool, as KAI's `nodePoolLabelKey`.")
    ] = NODE_POOL
    partition_label_value: Annotated[
        str,
        doc(
            "The pool, as in KAI's SchedulingShard. Empty: the default shard, of all objects without the label. It "
            "also serves the whole cluster: webhook and PodCliqueSets."
        ),
    ] = ""

    @property
    def chosen(self) -> Shard | None:
        """The shard; None: everything."""
        return Shard(self.partition_label_value, self.node_pool_label_key) if self.enabled else None

    @property
    def serves_cluster(self) -> bool:
        """Whether this muster does what is done once for the whole cluster: webhook, PodCliqueSets."""
        return not self.partition_label_value


class Scheduling(Wire, frozen=True):
    """The loop that plans, binds and evicts."""

    scheduler_names: Annotated[
        tuple[str, ...],
        doc(
            "muster schedules pods with one of these as `spec.schedulerName` (N6); all others only use resources of "
            "their nodes. To schedule pods of KAI's manifests, add `kai-scheduler`.",
            minItems=1,
        ),
    ] = (DEFAULT_SCHEDULER,)
    namespaces: Annotated[
        tuple[str, ...],
        doc(
            "Schedule only gangs of these namespaces; empty: all. Pods of other namespaces still use their nodes, "
            "are never evicted, and do not count in queues."
        ),
    ] = ()
    shard: Annotated[ShardSettings, doc("")] = ShardSettings()
    dry_run: Annotated[bool, doc("Plan and log, but write nothing: to try muster beside another scheduler.")] = False
    debounce_milliseconds: Annotated[
        int,
        doc(
            "Quiet after a change before a cycle begins: the pods of a gang are created one by one, and one plan for "
            "all of them is better than one for each.",
            **_between(0, 10_000),
        ),
    ] = 50
    longest_debounce_milliseconds: Annotated[
        int,
        doc(
            "A cycle begins after this long even while changes keep coming: a busy cluster is never quiet.",
            **_between(0, 60_000),
        ),
    ] = 500
    idle_cycle_seconds: Annotated[
        int,
        doc(
            "A cycle begins after this long without any change: grace periods (S2) and minimum run times pass by "
            "themselves.",
            **_between(1, _HOUR),
        ),
    ] = 10
    search_steps: Annotated[
        int,
        doc(
            "What all work for one gang in a cycle (search, victims, moves, diagnosis) may cost before its verdict is "
            "Unknown (X7). Steps, not seconds: the same cluster gets the same plan on every machine.",
            **_between(1_000, 10**9),
        ),
    ] = Policy().steps
    cycle_steps: Annotated[
        int,
        doc(
            "What the work for all gangs of a cycle may cost together (X7), about 4 seconds of CPU; a gang that has "
            "begun may finish, and easy gangs behind hard ones have half as much again. More: fewer gangs are "
            "`Unknown` on large busy clusters, and cycles take longer.",
            **_between(1_000, 10**10),
        ),
    ] = Policy().cycle_steps
    long_search_steps: Annotated[
        int,
        doc(
            "What a search beside the cycles may cost for a gang whose search was cut short (X7); one at a time, and "
            "only while no cycle runs. Its answer is checked again before use. 0: there are none.",
            **_between(0, 10**10),
        ),
    ] = 50 * Policy().steps
    bind_concurrency: Annotated[
        int,
        doc(
            "Bindings in flight at once: enough to keep an API server busy, few enough for its limit on requests of "
            "one client.",
            **_between(1, 1_000),
        ),
    ] = 128
    bind_timeout_seconds: Annotated[
        int,
        doc(
            "A write without an answer by then times out. A binding or eviction stays unconfirmed, as it may have been "
            "applied (G5), until the pod shows its result. Near the end of a lease the time is shorter.",
            **_between(1, 300),
        ),
    ] = 10


class Consolidation(Wire, frozen=True):
    """Moving running pods to free resources (P5, P8)."""

    max_pods: Annotated[
        int,
        doc(
            "Moves at most this many pods for one gang; 0: consolidation is off. Never moves more resources than the "
            "gang asks for.",
            **_between(0, 100_000),
        ),
    ] = Policy().max_moved_pods


class Disturbance(Wire, frozen=True):
    """How many running pods one cycle may evict or move (P8)."""

    max_share: Annotated[
        int,
        doc(
            "Percent of the running pods that one cycle evicts or moves at most, for higher priorities first; what a "
            "single gang needs is always allowed.",
            **_between(0, 100),
        ),
    ] = Policy().max_disturbed_percent


class PodGrouping(Wire, frozen=True):
    """The pod grouper: PodGroups for workloads that bring none."""

    enabled: Annotated[bool, doc("Without it, a pod needs a PodGroup that a user or another controller creates.")] = (
        True
    )
    owners: Annotated[
        tuple[str, ...],
        doc(
            "Resources that muster reads to find what a pod belongs to, as `plural.group`; beside them only those of "
            "`kinds`. A pod whose owner is not listed is grouped by the last owner that is."
        ),
    ] = RESOURCES
    kinds: Annotated[
        tuple[CustomKind, ...],
        doc("Kinds of your own, and how their pods are grouped; one that muster knows is grouped so instead."),
    ] = ()
    write_concurrency: Annotated[
        int, doc("PodGroups and pods that are written at once, beside the bindings.", **_between(1, 1_000))
    ] = 32
    empty_seconds: Annotated[
        int,
        doc(
            "A PodGroup of the grouper without pods is deleted after this long: longer than a controller needs to "
            "replace pods, and than places are kept for them (P7).",
            **_between(1, _HOUR),
        ),
    ] = 120

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that is read, those of `kinds` too."""
        described = (f"{kind.resource}.{kind.group}".rstrip(".") for kind in self.kinds)
        return tuple(dict.fromkeys((*self.owners, *described)))

    @property
    def rules(self) -> tuple[KindRule, ...]:
        """The rules of `kinds`."""
        return tuple(map(custom_rule, self.kinds))


class GroveOperator(Wire, frozen=True):
    """PodCliqueSets and what becomes of them."""

    enabled: Annotated[bool, doc("Without it, Grove's kinds are left alone.")] = True
    mode: Annotated[
        str,
        doc(
            "`operator`: muster makes everything that a PodCliqueSet consists of. `bridge`: another operator does, and "
            "muster schedules its PodGangs and writes their status.",
            enum=list(GROVE_MODES),
        ),
    ] = GROVE_MODES[0]
    startup_image: Annotated[
        str,
        doc(
            "The image of the init container by which cliques start in order: one that has muster in it. Unset: "
            "`muster` of this version."
        ),
    ] = ""


class LeaderElection(Wire, frozen=True):
    """One replica acts, the others stand by with a synced cache."""

    enabled: Annotated[bool, doc("Switch off only where a single replica is certain: two leaders bind twice.")] = True
    lease_name: Annotated[
        str,
        doc(
            "The Lease that replicas compete for; schedulers with names of their own have one each. Shards add `-` "
            "and the value of their label.",
            **NAME,
        ),
    ] = "muster"
    lease_namespace: Annotated[
        str, doc("Where the Lease lives; the role of the service account is bound there.", **LABEL)
    ] = "muster-system"
    lease_seconds: Annotated[
        int,
        doc(
            "Another replica replaces a leader that does not renew for this long: the longest time without a leader.",
            **_between(2, 600),
        ),
    ] = 15
    renew_deadline_seconds: Annotated[
        int,
        doc(
            "A leader that could not renew for this long stops by itself, before another may begin (I9).",
            **_between(1, 599),
        ),
    ] = 10
    progress_seconds: Annotated[
        int,
        doc(
            "A leader whose cycle makes no progress for this long (it does not end, and no write is answered) gives "
            "up the plan and the lease, and does not compete for twice `leaseSeconds`; each time it happens again, for "
            "twice as long, up to 20 times `leaseSeconds`. Longer than any cycle within `scheduling.cycleSteps`.",
            **_between(10, _HOUR),
        ),
    ] = 120
    retry_seconds: Annotated[
        int, doc("Between attempts to get or renew the Lease; several fit into the deadline.", **_between(1, 300))
    ] = 2


class Certificates(Wire, frozen=True):
    """The certificate that the webhook serves to the API server."""

    source: Annotated[
        str,
        doc(
            "`generated`: muster creates an authority and a certificate, stores them in a Secret, renews them and "
            "writes the authority to the webhook configurations. `files`: you provide them, and muster reads them "
            "again when they change.",
            enum=list(SOURCES),
        ),
    ] = "generated"
    secret_name: Annotated[
        str,
        doc(
            "`generated`: the Secret in `namespace` that all replicas share, so that they serve the same certificate.",
            **NAME,
        ),
    ] = "muster-webhook-certificates"
    namespace: Annotated[str, doc("The namespace of the Secret and of the Service.", **LABEL)] = "muster-system"
    service_name: Annotated[
        str, doc("The Service that the API server calls; the certificate must name it.", **NAME)
    ] = "muster-webhook"
    folder: Annotated[
        str,
        doc(
            "`files`: holds `tls.crt` and `tls.key`, as in a Secret of type `kubernetes.io/tls`, and `ca.crt` if "
            "muster should write the authority to the webhook configurations."
        ),
    ] = ""
    validity_days: Annotated[
        int, doc("`generated`: validity of a certificate; short, as renewal costs nothing.", **_between(1, 825))
    ] = 90
    authority_validity_days: Annotated[
        int,
        doc(
            "`generated`: validity of the authority. A new one is trusted beside the old one until that expires.",
            **_between(2, 10 * _DAYS),
        ),
    ] = _DAYS
    renew_before_days: Annotated[
        int,
        doc(
            "A certificate is renewed this long before it expires: weeks to notice that renewal fails.",
            **_between(0, 824),
        ),
    ] = 30
    check_seconds: Annotated[
        int,
        doc(
            "How often muster checks files, the Secret and the expiry; a mounted Secret takes about a minute anyway.",
            **_between(1, _HOUR),
        ),
    ] = 60


class Webhook(Wire, frozen=True):
    """The admission webhook for PodGroups, Queues, Topologies (V) and PodCliqueSets (R)."""

    enabled: Annotated[bool, doc("Without it, only the rules in the CRDs are enforced.")] = True
    host: Annotated[str, doc("The address to listen on; in a pod every address, so that the Service reaches it.")] = (
        "0.0.0.0"
    )
    port: Annotated[int, doc("Above 1024, as muster does not run as root.", **_PORT)] = 9443
    configuration_name: Annotated[
        str, doc("The ValidatingWebhookConfiguration and MutatingWebhookConfiguration that muster updates.", **NAME)
    ] = "muster"
    failure_policy: Annotated[
        str,
        doc(
            "What the API server does while no webhook answers. `Fail`: it never stores an invalid object, and "
            "rejects all changes of PodGroups meanwhile. `Ignore`: the reverse.",
            enum=list(FAILURE_POLICIES),
        ),
    ] = "Fail"
    group_pods: Annotated[
        bool,
        doc(
            "Group pods while they are created (`/group`), so that each needs no write later. Needs the "
            "MutatingWebhookConfiguration `<configurationName>-pods`, which ignores failures: a pod that is not "
            "grouped at admission is grouped afterwards."
        ),
    ] = False
    convert_older_dialects: Annotated[
        bool,
        doc(
            "Convert older dialects (D) on create and update, instead of refusing them. Off: objects are stored as "
            "they are written."
        ),
    ] = False
    max_body_bytes: Annotated[
        int,
        doc(
            "The webhook refuses larger requests unread. etcd stores 1.5 MiB, and an update carries the old object, "
            "too.",
            **_between(1_024, 64 * 2**20),
        ),
    ] = 4 * 2**20
    timeout_seconds: Annotated[
        int,
        doc(
            "A request that takes longer times out, in muster and in the API server: a client waits. Usual answers "
            "take a few milliseconds.",
            **_between(1, 30),
        ),
    ] = 5
    concurrency: Annotated[
        int,
        doc(
            "Large requests (over 16 KiB) that are answered at once; more wait, and count against their timeout. Their "
            "bodies share 64 MiB.",
            **_between(1, 1_000),
        ),
    ] = 32
    certificates: Annotated[Certificates, doc("The certificate that it serves.")] = Certificates()


class Observability(Wire, frozen=True):
    """`/livez`, `/readyz` and `/metrics`, in plain HTTP."""

    host: Annotated[str, doc("The address to listen on; kubelet and Prometheus come from outside of the pod.")] = (
        "0.0.0.0"
    )
    port: Annotated[int, doc("Apart from the webhook: other callers, and no TLS.", **_PORT)] = 8080
    silent_watch_seconds: Annotated[
        int,
        doc(
            "A watch without an event, a bookmark or a new stream for this long is dead: muster is not ready, gives "
            "the lease up if it leads, and does not compete. Streams end after 60 % of it at the latest, so that a "
            "kind without writes shows that it is watched, too.",
            **_between(10, _HOUR),
        ),
    ] = 100
    max_queues: Annotated[
        int,
        doc(
            "Queues that have series of their own in the metrics, parents first; all others are counted together as "
            "`_other`.",
            **_between(1, 10_000),
        ),
    ] = 100
    metrics_access: Annotated[
        str,
        doc(
            "Who may read `/metrics`. `open`: any client. `kubernetes`: bearers of a token that Kubernetes knows "
            "(TokenReview), of a user that may `get` the path `/metrics` (SubjectAccessReview). `token-file`: bearers "
            "of the token in `metricsTokenFile`. Tokens travel in plain HTTP: keep the port inside the cluster.",
            enum=list(METRICS_ACCESS),
        ),
    ] = METRICS_ACCESS[0]
    metrics_token_file: Annotated[str, doc("`token-file`: holds one token; read again when it changes.")] = ""
    stuck_cycle_seconds: Annotated[
        int,
        doc(
            "A cycle without a result for longer (it does not end, and no write is answered) is stuck, and muster not "
            "alive: kubelet restarts it. A replica that has nothing to do, or does not lead, is alive.",
            **_between(10, _HOUR),
        ),
    ] = 300


class Dashboard(Wire, frozen=True):
    """A page that shows the cluster live: map, gangs, queues, decisions, what if (guides/dashboard.md). Read-only."""

    enabled: Annotated[bool, doc("`muster up` has it in any case, unless `--no-dashboard`.")] = False
    host: Annotated[
        str,
        doc("The address to listen on; in a pod `0.0.0.0` with `access: kubernetes`, so that a Service reaches it."),
    ] = "127.0.0.1"
    port: Annotated[int, doc("Plain HTTP: end TLS in front of it where it leaves the machine.", **_PORT)] = 8090
    access: Annotated[
        str,
        doc(
            "Who may view. `loopback`: any process of this machine; `host` must be a loopback address. `kubernetes`: "
            "bearers of a token that Kubernetes knows (TokenReview), who see the gangs of namespaces in which they may "
            "`list` podgroups (SubjectAccessReview).",
            enum=list(DASHBOARD_ACCESS),
        ),
    ] = DASHBOARD_ACCESS[0]
    allowed_hosts: Annotated[
        tuple[str, ...],
        doc(
            "Names that a browser may call it by, beside `localhost`: requests for others are refused, against DNS "
            "rebinding. Empty with `access: kubernetes`: any name, as tokens keep other sites out."
        ),
    ] = ()
    max_viewers: Annotated[
        int,
        doc(
            "Event streams at once; one user, or one address without tokens, may have half of them.",
            **_between(1, 1_000),
        ),
    ] = 20
    history_bytes: Annotated[
        int,
        doc(
            "Memory for the way back through the last thousand cycles; a busy cluster may need more, or goes back "
            "less far.",
            **_between(2**20, 2**32),
        ),
    ] = 64 * 2**20


class Tracing(Wire, frozen=True):
    """Traces of cycles for OpenTelemetry; needs `muster[otel]`."""

    endpoint: Annotated[
        str,
        doc(
            "Where spans are sent, over OTLP in HTTP: `http://collector:4318/v1/traces`. Empty: nowhere, and nothing "
            "of OpenTelemetry is loaded. Headers come from `OTEL_EXPORTER_OTLP_HEADERS`."
        ),
    ] = ""
    sample_percent: Annotated[
        int, doc("Of all cycles, those that are traced: a busy cluster has several a second.", **_between(1, 100))
    ] = 100


class Log(Wire, frozen=True):
    """JSON lines on stderr."""

    level: Annotated[
        str,
        doc(
            "The lowest level that is logged. `debug` logs every decision, several lines a gang.",
            enum=list(LEVELS),
        ),
    ] = "info"


class Config(Wire, frozen=True):
    """The whole file. Every setting has a default: an empty file is valid."""

    scheduling: Annotated[Scheduling, doc("")] = Scheduling()
    consolidation: Annotated[Consolidation, doc("")] = Consolidation()
    disturbance: Annotated[Disturbance, doc("")] = Disturbance()
    grouping: Annotated[PodGrouping, doc("")] = PodGrouping()
    grove: Annotated[GroveOperator, doc("")] = GroveOperator()
    leader_election: Annotated[LeaderElection, doc("")] = LeaderElection()
    webhook: Annotated[Webhook, doc("")] = Webhook()
    observability: Annotated[Observability, doc("")] = Observability()
    dashboard: Annotated[Dashboard, doc("")] = Dashboard()
    tracing: Annotated[Tracing, doc("")] = Tracing()
    log: Annotated[Log, doc("")] = Log()

    @property
    def policy(self) -> Policy:
        """The policy of a plan: budgets of steps, and limits of evictions and moves."""
        return Policy(
            scheduler_names=self.scheduling.scheduler_names,
            shard=self.scheduling.shard.chosen,
            steps=self.scheduling.search_steps,
            cycle_steps=self.scheduling.cycle_steps,
            max_moved_pods=self.consolidation.max_pods,
            max_disturbed_percent=self.disturbance.max_share,
        )

    @property
    def lease_name(self) -> str:
        """The Lease of this muster's replicas: shards have one each, and the default shard that of a whole cluster."""
        value = self.scheduling.shard.partition_label_value
        return "-".join(filter(None, (self.leader_election.lease_name, lease_suffix(value))))


def lease_suffix(value: str) -> str:
    """A label value in the name of a Lease; one that is no such name gets a digest, as others may look like it."""
    if not value or re.fullmatch(NAME["pattern"], value):
        return value
    plain = re.sub("[^a-z0-9]+", "-", value.lower()).strip("-")
    return f"{plain}-{blake2b(value.encode(), digest_size=4).hexdigest()}"


def notes_of(field: FieldInfo) -> tuple[Any, ...]:
    """The annotations of a setting."""
    return field.type.__metadata__ if get_origin(field.type) is Annotated else ()


def schema_of(field: FieldInfo) -> dict[str, Any]:
    """The range, list of words or pattern of a setting."""
    return {key: value for note in notes_of(field) for key, value in (note.extra_json_schema or {}).items()}


def struct_of(field: FieldInfo) -> type[Wire] | None:
    """The type of a section; None: it is a single setting."""
    return _struct(_type(field))


def item_struct_of(field: FieldInfo) -> type[Wire] | None:
    """The type of the items of a list of sections, or of sections by name; None: it is neither."""
    kind = _type(field)
    items = {tuple: 0, dict: 1}.get(get_origin(kind))
    return None if items is None else _struct(get_args(kind)[items])


def _type(field: FieldInfo) -> Any:
    return get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type


def _struct(kind: Any) -> type[Wire] | None:
    return kind if isinstance(kind, type) and issubclass(kind, Wire) else None
