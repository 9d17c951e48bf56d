"""What the webhook shows to the API server, and how the API server learns to trust it.

Rule 1: the API server trusts what the webhook shows, at every moment: it hears of a new authority before anything of it
is shown. Rule 2: a key is in the Secret, in the user's folder or in memory; it is in no log and no error.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from muster.api.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from muster.config.settings import Webhook
from muster.errors import MusterError
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.observability.logging import logger
from muster.observability.metrics import Metrics
from muster.webhook.certificates.certificate_bundle import Bundle, CertificateError, read, service_names, trusted
from muster.webhook.certificates.certificate_checks import unfit
from muster.webhook.certificates.certificate_sources import CertificateSource, decoded

CONFIGURATIONS = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
SETTLE_SECONDS = 5.0  # until every API server has heard of a new authority through its watch
Now = Callable[[], datetime]


def utc_now() -> datetime:
    """The time on the wall."""
    return datetime.now(UTC)


# showing ------------------------------------------------------------------------------------------------------------


class ServedCertificate:
    """A TLS context whose certificate can be changed while it listens; also the check `certificate`.

    Every handshake is handed to the newest context. A context of its own for each certificate, as an old chain of
    another kind of key would stay in a context that is loaded twice.
    """

    name = "certificate"

    def __init__(self, now: Now = utc_now) -> None:
        self._now = now
        self._inner: ssl.SSLContext | None = None
        self._certificate: x509.Certificate | None = None
        self._host = ""
        self.context = _plain_context()
        self.context.sni_callback = self._hand_over

    def show(self, bundle: Bundle, host: str) -> None:
        """From the next handshake on; CertificateError where it cannot be used, and the old one stays.

        `host` is what the API server calls us.
        """
        inner, certificate = _context(bundle), _first(bundle)
        self._inner, self._certificate, self._host = inner, certificate, host

    def problem(self) -> str:
        """Why nobody should knock, and the way out."""
        if self._certificate is None:
            return "there is none yet; where that lasts, the log says why"
        return unfit(self._certificate, self._host, self._now())

    def _hand_over(
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
    """Python reads keys from files only: they are in a folder of our own, and gone when this returns."""
    context = _plain_context()
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        chain = Path(folder) / "chain.pem"
        chain.touch(mode=0o600)
        chain.write_bytes(bundle.key.rstrip() + b"\n" + bundle.certificate)
        try:
            context.load_cert_chain(chain)
        except (ssl.SSLError, ValueError) as error:
            said = getattr(error, "reason", None) or "not PEM"
            raise CertificateError(f"certificate and key cannot be used: {said}") from None
    return context


def _first(bundle: Bundle) -> x509.Certificate:
    """The one that is for us; the others of the file lead to its authority."""
    found = read(bundle.certificate)
    if not found:
        raise CertificateError("the certificate cannot be read")
    return found[0]


# telling the API server ---------------------------------------------------------------------------------------------


async def inject(cluster: Cluster, settings: Webhook, authority: bytes, now: datetime) -> int:
    """The authority, the failure policy and the timeout into our webhook configurations; how many were changed.

    An authority that stands there already stays beside ours: other replicas may show what it signed.
    A configuration that does not exist is left out: the mutating one is an option.
    """
    changed = 0
    for resource in CONFIGURATIONS:
        try:
            raw = await cluster.get(resource, "", settings.configuration_name)
        except ApiError as error:
            if error.status != 404:
                raise
            continue
        patch = list(_amendments(raw, settings, authority, now))
        if patch:
            await cluster.patch(resource, "", settings.configuration_name, patch, kind="application/json-patch+json")
            changed += 1
    return changed


def _amendments(raw: Raw, settings: Webhook, authority: bytes, now: datetime) -> Iterator[Raw]:
    """What differs, guarded by the names of the webhooks: nobody may have reordered them meanwhile."""
    for i, webhook in enumerate(raw.get("webhooks") or ()):
        wanted: Raw = {"failurePolicy": settings.failure_policy, "timeoutSeconds": settings.timeout_seconds}
        found = [
            {"op": "add", "path": f"/webhooks/{i}/{field}", "value": value}
            for field, value in wanted.items()
            if webhook.get(field) != value
        ]
        stored = decoded((webhook.get("clientConfig") or {}).get("caBundle"))
        bundle = trusted(authority, stored, now)
        if bundle != stored:
            encoded = base64.b64encode(bundle).decode()
            found.append({"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": encoded})
        if found:
            yield {"op": "test", "path": f"/webhooks/{i}/name", "value": webhook.get("name")}
            yield from found


class CertificateRotation:
    """The loop: look, show what is new, tell the API server."""

    def __init__(
        self,
        served_certificate: ServedCertificate,
        source: CertificateSource,
        cluster: Cluster,
        settings: Webhook,
        metrics: Metrics | None = None,
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
        self._shown: Bundle | None = None
        self._log = logger("certificates")

    async def look(self) -> None:
        """Once. First the API servers learn to trust, then the certificate is shown."""
        bundle = await self._source.current(self._now())
        if self._shown is None:
            self._show(bundle)  # at the start anything is better than nothing
        elif bundle != self._shown:
            self._compare(bundle)
        await inject(self._cluster, self._settings, bundle.authority, self._now())
        if self._shown and bundle != self._shown:
            if bundle.authority != self._shown.authority:
                await asyncio.sleep(self._settle_seconds)
            self._show(bundle)
        if problem := self._served_certificate.problem():
            self._log.warning("no API server takes the certificate", problem=problem)

    def _compare(self, new: Bundle) -> None:
        """CertificateError where nobody would take the new one, while what is shown is good: that stays."""
        flaw = unfit(_first(new), self._host, self._now())
        if flaw and not self._served_certificate.problem():
            raise CertificateError(f"the new certificate is not shown, the old one stays: {flaw}")

    def _show(self, bundle: Bundle) -> None:
        self._served_certificate.show(bundle, self._host)
        self._shown = bundle
        if self._metrics:
            self._metrics.certificate(bundle.expires.timestamp())
        self._log.info("certificate is shown", expires=bundle.expires.isoformat())

    async def run(self) -> None:
        """Until it is cancelled; a look that fails is told and tried again."""
        while True:
            try:
                await self.look()
            except MusterError as error:
                self._log.warning("certificates could not be looked after", problem=str(error))
            except (OSError, TimeoutError) as error:
                self._log.warning("certificates could not be looked after", problem=type(error).__name__)
            except Exception:  # the webhook answers with what it shows; without this loop all of muster would end
                self._log.exception("certificates could not be looked after")
            await asyncio.sleep(self._settings.certificates.check_seconds)
