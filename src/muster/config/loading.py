"""Loads the configuration from a file, and reports all of its problems at once."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path

from muster.api.names import NODE_POOL
from muster.config.settings import LABEL, NAME, Certificates, Config, Observability, PodGrouping
from muster.config.typed_document import read_bounded, read_typed, value_problems
from muster.grouping.custom_kind_problems import custom_kind_problems
from muster.grouping.table import RESOURCES
from muster.validation.problem import Problem

RENAMED = {"scheduling.schedulerName": "it is a list now: `schedulerNames: [muster]`"}  # what earlier versions read
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
LONGEST_LABEL_KEY = 253 + 1 + 63
WHAT = "a configuration"


def load(path: str | Path) -> Config:
    """The configuration in a file; InputError lists all of its problems."""
    return read(read_bounded(path, "docs/reference/config.md shows one with every setting", WHAT), str(path))


def read(data: bytes, source: str) -> Config:
    """The configuration in the bytes of a YAML or JSON file; an empty one is all defaults."""
    return read_typed(data, source, Config, _contradictions, WHAT, RENAMED)


def _contradictions(config: Config) -> Iterator[Problem]:
    """Settings that contradict each other."""
    scheduling, election = config.scheduling, config.leader_election
    if scheduling.longest_debounce_milliseconds < scheduling.debounce_milliseconds:
        yield Problem(
            "scheduling.longestDebounceMilliseconds",
            f"is less than `debounceMilliseconds`, {scheduling.debounce_milliseconds}",
            hint=f"at least {scheduling.debounce_milliseconds}",
        )
    for namespace in scheduling.namespaces:
        yield from value_problems("scheduling.namespaces", namespace, LABEL)
    for name in scheduling.scheduler_names:
        yield from value_problems("scheduling.schedulerNames", name, NAME)
    yield from _shard_problems(config)
    if not 2 * election.retry_seconds < election.renew_deadline_seconds < election.lease_seconds:
        yield Problem(
            "leaderElection",
            f"needs 2 × retrySeconds < renewDeadlineSeconds < leaseSeconds, has {election.retry_seconds}, "
            f"{election.renew_deadline_seconds}, {election.lease_seconds}",
            hint="a leader must stop before another may begin; 2, 10, 15 are the defaults",
        )
    if not election.progress_seconds < config.observability.stuck_cycle_seconds:
        yield Problem(
            "leaderElection.progressSeconds",
            f"must be less than `observability.stuckCycleSeconds`, {config.observability.stuck_cycle_seconds}, is "
            f"{election.progress_seconds}",
            hint="else kubelet restarts a leader before it can give up the lease",
        )
    yield from _metrics_problems(config.observability)
    if (endpoint := config.tracing.endpoint) and not endpoint.startswith(("http://", "https://")):
        yield Problem("tracing.endpoint", "is no address", hint="such as http://collector:4318/v1/traces")
    yield from _owner_problems(config.grouping)
    yield from custom_kind_problems(config.grouping.kinds, "grouping.kinds")
    yield from _certificate_problems(config.webhook.certificates)
    if config.webhook.enabled and config.webhook.port == config.observability.port:
        yield Problem("observability.port", f"is the webhook's, too: {config.webhook.port}", hint="choose another")
    yield from _dashboard_problems(config)


def _dashboard_problems(config: Config) -> Iterator[Problem]:
    dashboard = config.dashboard
    if not dashboard.enabled:
        return
    others = {"observability": config.observability.port}
    others |= {"webhook": config.webhook.port} if config.webhook.enabled else {}
    for name, port in others.items():
        if port == dashboard.port:
            yield Problem("dashboard.port", f"is that of `{name}`, too: {port}", hint="choose another")
    if dashboard.access == "loopback" and not is_loopback(dashboard.host):
        yield Problem(
            "dashboard.host",
            f"`{dashboard.host[:60]}` is open to other machines, and `access: loopback` lets everyone in",
            hint="say `access: kubernetes`, or listen on 127.0.0.1",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _metrics_problems(observability: Observability) -> Iterator[Problem]:
    is_read, at = observability.metrics_access == "token-file", "observability.metricsTokenFile"
    if is_read and not observability.metrics_token_file:
        yield Problem(at, "is missing", hint="with `metricsAccess: token-file`, say where the token is")
    if observability.metrics_token_file and not is_read:
        yield Problem(at, "is not read", hint="say `metricsAccess: token-file`, or leave it out")


def _shard_problems(config: Config) -> Iterator[Problem]:
    """A label that no node could have, or a pool that is named and not used."""
    shard, at = config.scheduling.shard, "scheduling.shard"
    if not LABEL_KEY.fullmatch(shard.node_pool_label_key) or len(shard.node_pool_label_key) > LONGEST_LABEL_KEY:
        yield Problem(
            f"{at}.nodePoolLabelKey",
            f"`{shard.node_pool_label_key[:60]}` is not the key of a label",
            hint=f"such as `{NODE_POOL}`",
        )
    if not LABEL_VALUE.fullmatch(shard.partition_label_value):
        yield Problem(
            f"{at}.partitionLabelValue",
            f"`{shard.partition_label_value[:60]}` is not the value of a label",
            hint="at most 63 letters, digits, `-`, `_` and `.`; empty for nodes without the label",
        )
    if shard.partition_label_value and not shard.enabled:
        yield Problem(
            f"{at}.partitionLabelValue", "is not read without `enabled: true`", hint="enable the shard, or leave it out"
        )
    if len(config.lease_name) > NAME["maxLength"]:
        yield Problem(
            "leaderElection.leaseName",
            "is too long with the value of the shard's label",
            hint=f"together at most {NAME['maxLength'] - 1} characters",
        )


def _owner_problems(grouping: PodGrouping) -> Iterator[Problem]:
    """Resources that muster could not read: it does not know their kinds."""
    described = {f"{kind.resource}.{kind.group}".rstrip(".") for kind in grouping.kinds}
    for resource in grouping.owners:
        if resource not in RESOURCES and resource not in described:
            close = get_close_matches(resource[:80], RESOURCES, n=1, cutoff=0.6)
            hint = f"did you mean `{close[0]}`?" if close else "describe its kind in `grouping.kinds`"
            yield Problem("grouping.owners", f"`{resource[:80]}` belongs to no kind that muster knows", hint=hint)


def _certificate_problems(certificates: Certificates) -> Iterator[Problem]:
    at = "webhook.certificates"
    if certificates.source == "files" and not certificates.folder:
        yield Problem(f"{at}.folder", "is missing", hint="with `source: files`, say where `tls.crt` and `tls.key` are")
    if certificates.source == "generated" and certificates.folder:
        yield Problem(
            f"{at}.folder", "is not read with `source: generated`", hint="say `source: files`, or leave it out"
        )
    if certificates.source == "generated" and not certificates.renew_before_days < certificates.validity_days:
        yield Problem(
            f"{at}.renewBeforeDays",
            f"must be less than `validityDays`, {certificates.validity_days}, is {certificates.renew_before_days}",
            hint="else every check would renew the certificate",
        )
    if certificates.source == "generated" and certificates.authority_validity_days <= certificates.validity_days:
        yield Problem(
            f"{at}.authorityValidityDays",
            f"must be more than `validityDays`, {certificates.validity_days}, "
            f"is {certificates.authority_validity_days}",
            hint="an authority must outlive the certificates that it signs",
        )
