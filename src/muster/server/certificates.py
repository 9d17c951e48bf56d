"""What the webhook shows to the API server: made and renewed by muster, or brought by the user.

Rule 1: the API server trusts what the webhook shows, at every moment: a new authority is trusted beside the old one,
and replicas that share a Secret write it with its resource version, so that one of them wins and the others follow.
Rule 2: a key is in the Secret, in the user's folder or in memory; it is in no log and no error.
"""

import asyncio
import base64
import binascii
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from muster.cluster.store import ApiError, PatchType, Raw, Resource
from muster.config import Certificates, Webhook
from muster.errors import MusterError
from muster.server.issuing import SLACK, builder, named, usage
from muster.server.logs import logger
from muster.server.metrics import Metrics

SECRETS = Resource("", "v1", "secrets", "Secret")
_ADMISSION = ("admissionregistration.k8s.io", "v1")
CONFIGURATIONS = (
    Resource(*_ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
    Resource(*_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
)
FILES = {"authority": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
ATTEMPTS = 5  # to store a new bundle while other replicas do the same
Now = Callable[[], datetime]


def utc_now() -> datetime:
    """The time on the wall."""
    return datetime.now(UTC)


class CertificateError(MusterError):
    """Certificates that cannot be used."""


class Objects(Protocol):
    """The part of a `Cluster` that is needed here."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Raw:
        """One object."""

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        """A new one."""

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        """The whole object, with its resource version."""

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = "application/merge-patch+json",
        subresource: str = "",
        field_manager: str = "muster",
        force: bool = False,
    ) -> Raw:
        """Part of it."""


class Bundle(Struct, frozen=True):
    """PEM: authorities to trust (the one that signs first), a certificate, and keys."""

    certificate: bytes
    key: bytes
    authority: bytes = b""  # empty: the user has put it into the webhook configurations himself
    authority_key: bytes = b""  # empty: not ours to sign with

    def __repr__(self) -> str:
        return "Bundle(…)"

    @property
    def expires(self) -> datetime:
        """When the certificate does."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc


# making -------------------------------------------------------------------------------------------------------------


def service_names(settings: Certificates) -> tuple[str, ...]:
    """What the API server calls the webhook."""
    service, namespace = settings.service_name, settings.namespace
    return f"{service}.{namespace}.svc", f"{service}.{namespace}", f"{service}.{namespace}.svc.cluster.local"


def issue(settings: Certificates, now: datetime, old: Bundle | None = None) -> Bundle:
    """A new certificate, of the old authority where that outlives it, else of a new one that is trusted beside it."""
    until = now + timedelta(days=settings.validity_days)
    signer = _signer(old, until) if old else None
    authorities = _authorities(old, now)
    if signer is None:
        signer = _new_authority(now, now + timedelta(days=settings.authority_validity_days))
        authorities = [signer[0], *authorities[:1]]
    authority, authority_key = signer
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = service_names(settings)
    certificate = (
        builder(named(hosts[0][:64]), authority.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Bundle(_pem([certificate]), _key_pem(key), _pem(authorities), _key_pem(authority_key))


def due(bundle: Bundle, settings: Certificates, now: datetime) -> str:
    """Why a generated bundle has to be renewed; empty: it is good."""
    try:
        certificate = x509.load_pem_x509_certificate(bundle.certificate)
        authority = x509.load_pem_x509_certificates(bundle.authority)[0]
        certificate.verify_directly_issued_by(authority)
        matches = certificate.public_key() == serialization.load_pem_private_key(bundle.key, None).public_key()
        known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = known.get_values_for_type(x509.DNSName)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return "it cannot be read"
    if not matches:
        return "its key is another's"
    if missing := set(service_names(settings)) - set(hosts):
        return f"it is not made out to {', '.join(sorted(missing))}"
    left = min(certificate.not_valid_after_utc, authority.not_valid_after_utc) - now
    if left <= timedelta(days=settings.renew_before_days):
        return f"it expires in {max(left.days, 0)} days" if left > timedelta() else "it has expired"
    return "it is not valid yet" if certificate.not_valid_before_utc > now + SLACK else ""


def _signer(old: Bundle, until: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    """The old authority with its key, if it is whole and outlives what it is to sign."""
    try:
        authority = x509.load_pem_x509_certificates(old.authority)[0]
        key = serialization.load_pem_private_key(old.authority_key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or authority.public_key() != key.public_key():
        return None
    return (authority, key) if authority.not_valid_after_utc > until else None


def _authorities(old: Bundle | None, now: datetime) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(old.authority) if old else []
    except ValueError:
        return []
    return [authority for authority in found if authority.not_valid_after_utc > now]


def _new_authority(now: datetime, until: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = named("muster webhook CA")
    authority = (
        builder(name, name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return authority, key


def _pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# keeping ------------------------------------------------------------------------------------------------------------


class Keeper(Protocol):
    """Where a generated bundle is kept."""

    async def load(self) -> Bundle | None:
        """What is there; None: nothing yet."""

    async def store(self, bundle: Bundle) -> bool:
        """False: somebody else was faster; load it again."""


class InSecret:
    """In a Secret that all replicas share."""

    def __init__(self, cluster: Objects, namespace: str, name: str) -> None:
        self._cluster, self._namespace, self._name = cluster, namespace, name
        self._seen: Raw | None = None

    async def load(self) -> Bundle | None:
        """None: there is no such Secret, or it has no certificate yet."""
        try:
            self._seen = await self._cluster.get(SECRETS, self._namespace, self._name)
        except ApiError as error:
            if error.status != 404:
                raise
            self._seen = None
        data = (self._seen or {}).get("data") or {}
        found = {field: _decoded(data.get(name)) for field, name in FILES.items()}
        return Bundle(**found) if any(found.values()) else None

    async def store(self, bundle: Bundle) -> bool:
        """With the resource version that was read: of two replicas one wins."""
        data = {name: base64.b64encode(getattr(bundle, field)).decode() for field, name in FILES.items()}
        meta = {"name": self._name, "namespace": self._namespace}
        try:
            if self._seen is None:
                await self._cluster.create(
                    SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": data}
                )
            else:
                kept = self._seen.get("data") or {}
                await self._cluster.replace(SECRETS, {**self._seen, "data": {**kept, **data}})
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""


class InFolder:
    """In a folder: for one replica outside of Kubernetes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def load(self) -> Bundle | None:
        """None: the folder has none."""
        found = {field: _bytes(self._folder / name) for field, name in FILES.items()}
        return Bundle(**found) if any(found.values()) else None

    async def store(self, bundle: Bundle) -> bool:
        """Each file whole, readable for nobody else; the key last, so that half a change is seen as one."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for field, name in FILES.items():
                beside = self._folder / f".{name}.new"
                beside.unlink(missing_ok=True)
                beside.touch(mode=0o600)
                beside.write_bytes(getattr(bundle, field))
                beside.replace(self._folder / name)
        except OSError as error:
            raise CertificateError(f"{self._folder}: cannot be written: {error.strerror or error}") from None
        return True


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror or error}") from None


# sources ------------------------------------------------------------------------------------------------------------


class Source(Protocol):
    """Where the bundle to show comes from."""

    async def current(self, now: datetime) -> Bundle:
        """What should be shown now."""


class Generated:
    """Made by muster, and renewed in time."""

    def __init__(self, keeper: Keeper, settings: Certificates) -> None:
        self._keeper, self._settings = keeper, settings

    async def current(self, now: datetime) -> Bundle:
        """What is kept, unless it is due; whoever stores a new one first decides for all."""
        for _ in range(ATTEMPTS):
            kept = await self._keeper.load()
            reason = due(kept, self._settings, now) if kept else "there is none"
            if kept and not reason:
                return kept
            made = issue(self._settings, now, kept)
            if await self._keeper.store(made):
                logger("certificates").info("new certificate", reason=reason, expires=made.expires.isoformat())
                return made
        raise CertificateError("the certificate could not be stored: somebody else changes it all the time")


class Brought:
    """The user's files, as they are now: mounted Secrets change under our feet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self, now: datetime) -> Bundle:  # noqa: ARG002 (the user renews them)
        """`tls.crt` and `tls.key`, and `ca.crt` where it is."""
        found = {field: _bytes(self._folder / FILES[field]) for field in ("certificate", "key", "authority")}
        for field in ("certificate", "key"):
            if not found[field]:
                raise CertificateError(
                    f"{self._folder / FILES[field]}: is missing", hint="a Secret of type kubernetes.io/tls has it"
                )
        return Bundle(**found)


def source(settings: Certificates, cluster: Objects) -> Source:
    """As the configuration says."""
    if settings.source == "files":
        return Brought(Path(settings.folder))
    return Generated(InSecret(cluster, settings.namespace, settings.secret_name), settings)


# showing ------------------------------------------------------------------------------------------------------------


class Door:
    """A TLS context whose certificate can be changed while it listens; also the check `certificate`.

    Every handshake is handed to the newest context. A context of its own for each certificate, as an old chain of
    another kind of key would stay in a context that is loaded twice.
    """

    name = "certificate"

    def __init__(self, now: Now = utc_now) -> None:
        self._now = now
        self._inner: ssl.SSLContext | None = None
        self._expires: datetime | None = None
        self.context = _plain_context()
        self.context.sni_callback = self._hand_over

    def show(self, bundle: Bundle) -> None:
        """From the next handshake on; CertificateError where it cannot be used, and the old one stays."""
        inner, expires = _context(bundle), bundle.expires
        self._inner, self._expires = inner, expires

    def problem(self) -> str:
        """Why nobody should knock."""
        if self._expires is None:
            return "there is none yet"
        return "it has expired" if self._expires <= self._now() else ""

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
    try:
        x509.load_pem_x509_certificate(bundle.certificate)
    except ValueError:
        raise CertificateError("the certificate cannot be read") from None
    return context


# telling the API server ---------------------------------------------------------------------------------------------


async def inject(cluster: Objects, settings: Webhook, authority: bytes) -> int:
    """The authority, the failure policy and the timeout into our webhook configurations; how many were changed.

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
        patch = list(_amendments(raw, settings, authority))
        if patch:
            await cluster.patch(resource, "", settings.configuration_name, patch, kind="application/json-patch+json")
            changed += 1
    return changed


def _amendments(raw: Raw, settings: Webhook, authority: bytes) -> Iterator[Raw]:
    """What differs, guarded by the names of the webhooks: nobody may have reordered them meanwhile."""
    for i, webhook in enumerate(raw.get("webhooks") or ()):
        wanted: Raw = {"failurePolicy": settings.failure_policy, "timeoutSeconds": settings.timeout_seconds}
        found = [
            {"op": "add", "path": f"/webhooks/{i}/{field}", "value": value}
            for field, value in wanted.items()
            if webhook.get(field) != value
        ]
        bundle = base64.b64encode(authority).decode()
        if authority and (webhook.get("clientConfig") or {}).get("caBundle") != bundle:
            found.append({"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": bundle})
        if found:
            yield {"op": "test", "path": f"/webhooks/{i}/name", "value": webhook.get("name")}
            yield from found


class Keeping:
    """The loop: look, show what is new, tell the API server."""

    def __init__(
        self,
        door: Door,
        source: Source,
        cluster: Objects,
        settings: Webhook,
        metrics: Metrics | None = None,
        now: Now = utc_now,
    ) -> None:
        self._door, self._source, self._cluster, self._settings = door, source, cluster, settings
        self._metrics, self._now = metrics, now
        self._shown: Bundle | None = None
        self._log = logger("certificates")

    async def look(self) -> None:
        """Once. First the API server learns to trust, then the certificate is shown."""
        bundle = await self._source.current(self._now())
        if self._shown is None:
            self._show(bundle)  # at the start nothing is better than anything
        await inject(self._cluster, self._settings, bundle.authority)
        if bundle != self._shown:
            self._show(bundle)

    def _show(self, bundle: Bundle) -> None:
        self._door.show(bundle)
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
            await asyncio.sleep(self._settings.certificates.check_seconds)
