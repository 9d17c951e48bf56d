"""Certificates that muster makes for its webhook, and when they have to be renewed.

Rule 1: a new authority stands beside the old one for as long as that lives, so that what the old one signed is trusted,
too. Rule 2: keys are in a bundle, and a bundle shows nothing of itself.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from muster.config.settings import Certificates
from muster.errors import MusterError
from muster.observability.x509 import SLACK, builder, named, usage

MOST_TRUSTED = 2  # ours and the one before
UNREADABLE = (  # whatever somebody put there: the library has no error above all of its own
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


class CertificateError(MusterError):
    """Certificates that cannot be used."""


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


def service_names(settings: Certificates) -> tuple[str, ...]:
    """What the API server calls the webhook."""
    service, namespace = settings.service_name, settings.namespace
    return f"{service}.{namespace}.svc", f"{service}.{namespace}", f"{service}.{namespace}.svc.cluster.local"


def issue(settings: Certificates, now: datetime, old: Bundle | None = None) -> Bundle:
    """A new certificate, of the old authority where that outlives it, else of a new one that is trusted beside it."""
    until = now + timedelta(days=settings.validity_days)
    signer = _signer(old, until) if old else None
    authorities = _unexpired(read(old.authority), now) if old else []
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
    except UNREADABLE:
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
        matches = authority.public_key() == key.public_key()
    except UNREADABLE:
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not matches:
        return None
    return (authority, key) if authority.not_valid_after_utc > until else None


def trusted(authority: bytes, stored: bytes, now: datetime) -> bytes:
    """What to trust: our own, beside the newest other that is trusted now, two in all; certificates, and nothing else.

    Another replica may still show what that one signed. Where `stored` says the same in another order, it stays; also
    where we have none of our own.
    """
    own, before = read(authority), read(stored)
    others = sorted(
        (one for one in _unexpired(before, now) if one not in own), key=lambda one: one.not_valid_before_utc
    )
    wanted = [*own, *others[::-1][: max(MOST_TRUSTED - len(own), 0)]]
    return stored if not own or set(wanted) == set(before) else _pem(wanted)


def _unexpired(certificates: Iterable[x509.Certificate], now: datetime) -> list[x509.Certificate]:
    return [one for one in certificates if one.not_valid_after_utc > now]


def read(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM file; none where they cannot be read."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except UNREADABLE:
        return []


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
