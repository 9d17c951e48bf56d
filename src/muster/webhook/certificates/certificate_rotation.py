"""Rotation of the webhook's certificate, and of the authorities in the webhook configurations.

Rule 1: the API server always trusts the served certificate: a new authority is in the webhook configurations before
the webhook serves a certificate of it. Rule 2: a key is in the Secret, in the user's folder or in memory, never in a
log or an error.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from cryptography import x509

from muster.api.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from muster.config.settings import Webhook
from muster.errors import MusterError
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.kube.temporary_folder import temporary_folder
from muster.observability.logging import logger
from muster.webhook.certificates.certificate_bundle import (
    Bundle,
    CertificateError,
    merge_authorities,
    read,
    service_names,
)
from muster.webhook.certificates.certificate_checks import certificate_problem
from muster.webhook.certificates.certificate_sources import CertificateSource, decode_base64
from muster.webhook.observer import WebhookObserver

CONFIGURATIONS = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
POD_WEBHOOK, POD_WEBHOOK_SECONDS = "pods.muster.dev", 3  # in the configuration `<name>-pods`
SETTLE_SECONDS = 5.0  # until every API server has seen a new authority through its watch
Now = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


# the served certificate -----------------------------------------------------------------------------------------------


class ServedCertificate:
    """A TLS context whose certificate can change while the server listens; also the health check `certificate`.

    Every handshake uses the newest inner context. Each certificate has its own context, because a context that is
    loaded twice keeps an old chain of another key type.
    """

    name = "certificate"

    def __init__(self, now: Now = utc_now) -> None:
        self._now = now
        self._inner: ssl.SSLContext | None = None
        self._certificate: x509.Certificate | None = None
        self._host = ""
        self.context = _plain_context()
        self.context.sni_callback = self._use_newest

    def use(self, bundle: Bundle, host: str) -> None:
        """Serve it from the next handshake on; CertificateError where it cannot be used, and the old one stays.

        `host` is the name that the API server uses.
        """
        inner, certificate = _context(bundle), _first(bundle)
        self._inner, self._certificate, self._host = inner, certificate, host

    @property
    def is_loaded(self) -> bool:
        """Whether handshakes can succeed."""
        return self._inner is not None

    def problem(self) -> str:
        """Why the API server would reject it, with a hint; empty: it accepts it."""
        if self._certificate is None:
            return "there is none yet; if that lasts, see the log"
        return certificate_problem(self._certificate, self._host, self._now())

    def _use_newest(
        self, socket: ssl.SSLObject | ssl.SSLSocket, _host: str | None, _outer: ssl.SSLContext
    ) -> int | None:
        if self._inner is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        socket.context = self._inner
        return None


def _plain_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _context(bundle: Bundle) -> ssl.SSLContext:
    """A context with this certificate. Python reads keys from files only: a private temporary folder holds them."""
    context = _plain_context()
    with temporary_folder() as folder:
        chain = folder / "chain.pem"
        chain.touch(mode=0o600)
        chain.write_bytes(bundle.key.rstrip() + b"\n" + bundle.certificate)
        try:
            context.load_cert_chain(chain)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "not PEM"
            raise CertificateError(f"certificate and key cannot be used: {reason}") from None
    return context


def _first(bundle: Bundle) -> x509.Certificate:
    """The certificate itself; further ones in the file are its chain."""
    certificates = read(bundle.certificate)
    if not certificates:
        raise CertificateError("the certificate cannot be read")
    return certificates[0]


# rotation -------------------------------------------------------------------------------------------------------------


async def inject(cluster: Cluster, settings: Webhook, authority: bytes, now: datetime) -> int:
    """Write authority, failure policy and timeout to our webhook configurations; returns how many changed.

    Keeps a stored authority beside ours: other replicas may serve a certificate of it. Skips a configuration that does
    not exist: the mutating one is optional.
    """
    changed = 0
    for resource, name in _configurations(settings):
        try:
            raw = await cluster.get(resource, "", name)
        except ApiError as error:
            if error.status != 404:
                raise
            continue
        patch = list(_patch_operations(raw, settings, authority, now))
        if patch:
            await cluster.patch(resource, "", name, patch, kind="application/json-patch+json")
            changed += 1
    return changed


def _configurations(settings: Webhook) -> Iterator[tuple[Resource, str]]:
    """Our webhook configurations; those of Grove and of pods are their own, so that each can be installed alone."""
    for name in (settings.configuration_name, f"{settings.configuration_name}-grove"):
        yield from ((resource, name) for resource in CONFIGURATIONS)
    if settings.group_pods:
        yield MUTATING_WEBHOOKS, f"{settings.configuration_name}-pods"


def _failure_handling(webhook: Raw, settings: Webhook) -> Raw:
    """What the API server does without an answer. Pods never depend on muster: they are grouped afterwards, too."""
    if webhook.get("name") == POD_WEBHOOK:
        return {"failurePolicy": "Ignore", "timeoutSeconds": min(settings.timeout_seconds, POD_WEBHOOK_SECONDS)}
    return {"failurePolicy": settings.failure_policy, "timeoutSeconds": settings.timeout_seconds}


def _patch_operations(raw: Raw, settings: Webhook, authority: bytes, now: datetime) -> Iterator[Raw]:
    """JSON Patch operations for what differs, behind a test of the webhook's name: the list may be reordered."""
    for i, webhook in enumerate(raw.get("webhooks") or ()):
        desired = _failure_handling(webhook, settings)
        operations = [
            {"op": "add", "path": f"/webhooks/{i}/{field}", "value": value}
            for field, value in desired.items()
            if webhook.get(field) != value
        ]
        stored = decode_base64((webhook.get("clientConfig") or {}).get("caBundle"))
        bundle = merge_authorities(authority, stored, now)
        if bundle != stored:
            encoded = base64.b64encode(bundle).decode()
            operations.append({"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": encoded})
        if operations:
            yield {"op": "test", "path": f"/webhooks/{i}/name", "value": webhook.get("name")}
            yield from operations


class CertificateRotation:
    """The loop: read the source, update the webhook configurations, serve the new certificate."""

    def __init__(
        self,
        served_certificate: ServedCertificate,
        source: CertificateSource,
        cluster: Cluster,
        settings: Webhook,
        metrics: WebhookObserver | None = None,
        now: Now = utc_now,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._served_certificate, self._source, self._cluster, self._settings = (
            served_certificate,
            source,
            cluster,
            settings,
        )
        self._metrics, self._now, self._settle_seconds = metrics, now, settle_seconds
        self._host = service_names(settings.certificates)[0]
        self._served: Bundle | None = None
        self._log = logger("certificates")

    async def reconcile(self) -> None:
        """Run once: first the API servers get the authority, then the webhook serves the certificate."""
        bundle = await self._source.current(self._now())
        if self._served is None:
            self._serve(bundle)  # at the start any certificate is better than none
        elif bundle != self._served:
            self._compare(bundle)
        await inject(self._cluster, self._settings, bundle.authority, self._now())
        if self._served and bundle != self._served:
            if bundle.authority != self._served.authority:
                await asyncio.sleep(self._settle_seconds)
            self._serve(bundle)
        if problem := self._served_certificate.problem():
            self._log.warning("the API server rejects the certificate", problem=problem)

    def _compare(self, new: Bundle) -> None:
        """CertificateError where the API server would reject the new one but accepts the served one, which stays."""
        flaw = certificate_problem(_first(new), self._host, self._now())
        if flaw and not self._served_certificate.problem():
            raise CertificateError(f"the new certificate is not used, the old one stays: {flaw}")

    def _serve(self, bundle: Bundle) -> None:
        self._served_certificate.use(bundle, self._host)
        self._served = bundle
        if self._metrics:
            self._metrics.certificate(bundle.expires.timestamp())
        self._log.info("serves certificate", expires=bundle.expires.isoformat())

    async def run(self) -> None:
        """Run until cancelled; logs a failure and tries again."""
        while True:
            try:
                await self.reconcile()
            except MusterError as error:
                self._log.warning("certificate rotation failed", problem=str(error))
            except (OSError, TimeoutError) as error:
                self._log.warning("certificate rotation failed", problem=type(error).__name__)
            except Exception:  # the webhook still serves; an error here would end the process
                self._log.exception("certificate rotation failed")
            await asyncio.sleep(self._settings.certificates.check_seconds)
