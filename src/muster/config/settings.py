"""Every setting of the control plane: one file, one type; each has a default, its unit in its name, and a reason.

Rule 1: a file that says something else than it seems to is refused: keys that are not settings, values of a wrong type
or out of range, settings that contradict each other; all of them at once, with path and hint. Rule 2: no secret stands
here: credentials come from the kubeconfig or the service account, keys from the Secret or the folder that is named.
"""

from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec.structs import FieldInfo

from muster.api.meta import Wire, doc
from muster.api.names import DEFAULT_SCHEDULER
from muster.planning.policy import Policy

Level = Literal["debug", "info", "warning", "error"]
FAILURE_POLICIES = ("Fail", "Ignore")
SOURCES = ("generated", "files")
LEVELS: tuple[Level, ...] = get_args(Level)

_HOUR, _DAYS = 3600, 3650
_PORT: dict[str, Any] = {"minimum": 1, "maximum": 65535}
NAME: dict[str, Any] = {"maxLength": 253, "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
LABEL: dict[str, Any] = {"maxLength": 63, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}


def _between(least: int, most: int) -> dict[str, Any]:
    return {"minimum": least, "maximum": most}


class Scheduling(Wire, frozen=True):
    """The loop that plans, binds and evicts."""

    scheduler_names: Annotated[
        tuple[str, ...],
        doc(
            "Pods with one of these as `spec.schedulerName` are ours (N6); all others only take room on their nodes. "
            "Where pods of KAI's manifests are to be scheduled, `kai-scheduler` belongs here, too.",
            minItems=1,
        ),
    ] = (DEFAULT_SCHEDULER,)
    namespaces: Annotated[
        tuple[str, ...],
        doc(
            "Only gangs of these namespaces are scheduled; empty: all. What runs elsewhere still counts as used on its "
            "nodes, is never disturbed, and does not count in queues."
        ),
    ] = ()
    dry_run: Annotated[bool, doc("Plan and tell, but write nothing: to look at muster beside another scheduler.")] = (
        False
    )
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
    ] = 64
    bind_timeout_seconds: Annotated[
        int,
        doc(
            "A write that is not answered by then is given up. A binding or eviction still counts as sent, as it may "
            "have happened (G5), until the pod itself shows how it ended. Near the end of a lease the time is shorter.",
            **_between(1, 300),
        ),
    ] = 10


class Consolidation(Wire, frozen=True):
    """Moving running pods to make room (P5, P8)."""

    max_pods: Annotated[
        int,
        doc(
            "Pods that are moved for one gang at most; 0: none, consolidation is off. Never more resources than the "
            "gang asks for.",
            **_between(0, 100_000),
        ),
    ] = Policy().max_moved_pods


class Disturbance(Wire, frozen=True):
    """How much of what runs one cycle may disturb (P8)."""

    max_share: Annotated[
        int,
        doc(
            "Percent of the running pods that one cycle evicts or moves at most, higher priorities first; what a "
            "single gang needs is always allowed.",
            **_between(0, 100),
        ),
    ] = Policy().max_disturbed_percent


class LeaderElection(Wire, frozen=True):
    """One replica acts, the others stand by with everything in memory."""

    enabled: Annotated[bool, doc("Switch off only where a single replica is certain: two leaders bind twice.")] = True
    lease_name: Annotated[
        str, doc("The Lease that replicas compete for; schedulers with names of their own have one each.", **NAME)
    ] = "muster"
    lease_namespace: Annotated[
        str, doc("Where the Lease lives; the role of the service account is bound there.", **LABEL)
    ] = "muster-system"
    lease_seconds: Annotated[
        int,
        doc("A leader that is silent for this long is replaced: the longest time without any.", **_between(2, 600)),
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
            "A leader whose cycle shows no result for this long (it does not end, and no write is answered) gives the "
            "plan and the lease up, and stands back for twice `leaseSeconds`. Longer than any cycle that stays within "
            "`scheduling.cycleSteps`.",
            **_between(10, _HOUR),
        ),
    ] = 120
    retry_seconds: Annotated[
        int, doc("Between attempts to get or renew the Lease; several fit into the deadline.", **_between(1, 300))
    ] = 2


class Certificates(Wire, frozen=True):
    """What the webhook shows to the API server."""

    source: Annotated[
        str,
        doc(
            "`generated`: muster makes an authority and a certificate, keeps them in a Secret, renews them and puts "
            "the authority into the webhook configurations. `files`: you bring them, and muster reads them again when "
            "they change.",
            enum=list(SOURCES),
        ),
    ] = "generated"
    secret_name: Annotated[
        str, doc("`generated`: the Secret in `namespace` that all replicas share, so that they show one.", **NAME)
    ] = "muster-webhook-certificates"
    namespace: Annotated[str, doc("Of the Secret and of the Service.", **LABEL)] = "muster-system"
    service_name: Annotated[
        str, doc("The Service that the API server calls; the certificate has to be made out to it.", **NAME)
    ] = "muster-webhook"
    folder: Annotated[
        str,
        doc(
            "`files`: holds `tls.crt` and `tls.key`, as in a Secret of type `kubernetes.io/tls`, and `ca.crt` where "
            "muster should put the authority into the webhook configurations, too."
        ),
    ] = ""
    validity_days: Annotated[
        int, doc("`generated`: how long a certificate holds; short, as renewing costs nothing.", **_between(1, 825))
    ] = 90
    authority_validity_days: Annotated[
        int,
        doc(
            "`generated`: how long the authority holds. A new one is trusted beside the old one until that expires.",
            **_between(2, 10 * _DAYS),
        ),
    ] = _DAYS
    renew_before_days: Annotated[
        int,
        doc(
            "A certificate is renewed this long before it expires: weeks in which somebody may notice that it fails.",
            **_between(0, 824),
        ),
    ] = 30
    check_seconds: Annotated[
        int,
        doc(
            "How often files, the Secret and the expiry are looked at; a mounted Secret takes about a minute anyway.",
            **_between(1, _HOUR),
        ),
    ] = 60


class Webhook(Wire, frozen=True):
    """The server that the API server asks about PodGroups, Queues and Topologies (V)."""

    enabled: Annotated[bool, doc("Without it, only the rules that CRDs can hold are enforced.")] = True
    host: Annotated[str, doc("The address to listen on; in a pod that is every address, as the Service finds it.")] = (
        "0.0.0.0"
    )
    port: Annotated[int, doc("Above 1024, as muster does not run as root.", **_PORT)] = 9443
    configuration_name: Annotated[
        str, doc("The ValidatingWebhookConfiguration and MutatingWebhookConfiguration that muster keeps.", **NAME)
    ] = "muster"
    failure_policy: Annotated[
        str,
        doc(
            "What the API server does while no webhook answers. `Fail`: nothing invalid is ever stored, and nobody "
            "can change a PodGroup meanwhile. `Ignore`: the reverse.",
            enum=list(FAILURE_POLICIES),
        ),
    ] = "Fail"
    convert_older_dialects: Annotated[
        bool,
        doc(
            "Rewrite older dialects (D) when they are created, instead of refusing them. Off: what is stored is what "
            "was written."
        ),
    ] = False
    max_body_bytes: Annotated[
        int,
        doc(
            "Larger requests are refused unread. etcd stores 1.5 MiB, and an update carries the old object, too.",
            **_between(1_024, 64 * 2**20),
        ),
    ] = 4 * 2**20
    timeout_seconds: Annotated[
        int,
        doc(
            "A request that takes longer is given up, by muster and by the API server: a client is waiting. Usual "
            "answers take a few milliseconds.",
            **_between(1, 30),
        ),
    ] = 5
    concurrency: Annotated[
        int,
        doc(
            "Large requests (over 16 KiB) in memory at once; more wait, and count against their timeout.",
            **_between(1, 1_000),
        ),
    ] = 32
    certificates: Annotated[Certificates, doc("What it shows to the API server.")] = Certificates()


class Observability(Wire, frozen=True):
    """`/livez`, `/readyz` and `/metrics`, in plain HTTP."""

    host: Annotated[str, doc("The address to listen on; kubelet and Prometheus come from outside of the pod.")] = (
        "0.0.0.0"
    )
    port: Annotated[int, doc("Apart from the webhook: other callers, and no TLS.", **_PORT)] = 8080
    silent_watch_seconds: Annotated[
        int,
        doc(
            "A watch without an event or bookmark for this long counts as dead, and muster as not ready. The API "
            "server sends a bookmark about every minute, but of a kind that nobody writes only a new stream is heard, "
            "and that begins after 330 seconds at the latest.",
            **_between(331, _HOUR),
        ),
    ] = 400
    stuck_cycle_seconds: Annotated[
        int,
        doc(
            "A cycle that runs for longer counts as stuck, and muster as not alive: kubelet restarts it. A replica "
            "that has nothing to do, or does not lead, is alive.",
            **_between(10, _HOUR),
        ),
    ] = 300


class Log(Wire, frozen=True):
    """JSON lines on stderr."""

    level: Annotated[
        str,
        doc(
            "The least important that is written. `debug` tells every decision, several lines a gang.",
            enum=list(LEVELS),
        ),
    ] = "info"


class Config(Wire, frozen=True):
    """The whole file. Everything has a default: an empty file is a good one."""

    scheduling: Annotated[Scheduling, doc("")] = Scheduling()
    consolidation: Annotated[Consolidation, doc("")] = Consolidation()
    disturbance: Annotated[Disturbance, doc("")] = Disturbance()
    leader_election: Annotated[LeaderElection, doc("")] = LeaderElection()
    webhook: Annotated[Webhook, doc("")] = Webhook()
    observability: Annotated[Observability, doc("")] = Observability()
    log: Annotated[Log, doc("")] = Log()

    @property
    def policy(self) -> Policy:
        """What a plan may cost, and whom it may disturb."""
        return Policy(
            scheduler_names=self.scheduling.scheduler_names,
            steps=self.scheduling.search_steps,
            cycle_steps=self.scheduling.cycle_steps,
            max_moved_pods=self.consolidation.max_pods,
            max_disturbed_percent=self.disturbance.max_share,
        )


def notes_of(field: FieldInfo) -> tuple[Any, ...]:
    """What `doc` says about a setting."""
    return field.type.__metadata__ if get_origin(field.type) is Annotated else ()


def schema_of(field: FieldInfo) -> dict[str, Any]:
    """The range, list of words or pattern of a setting."""
    return {key: value for note in notes_of(field) for key, value in (note.extra_json_schema or {}).items()}


def struct_of(field: FieldInfo) -> type[Wire] | None:
    """The type of a section; None: it is a single setting."""
    kind = get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type
    return kind if isinstance(kind, type) and issubclass(kind, Wire) else None
