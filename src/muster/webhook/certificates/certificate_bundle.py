"""Certificates that muster issues for its webhook, and when it renews them.

Rule 1: a new authority is trusted beside the old one until that expires, so that certificates of the old one stay
valid. Rule 2: keys are in a bundle, and the repr of a bundle shows nothing.
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
from muster.observability.serving.x509 import SLACK, builder, usage, x509_name

MOST_TRUSTED = 2  # ours and the one before
UNREADABLE = (  # errors of malformed certificates: the library has no common base class
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
    """PEM: authorities to trust (the signing one first), a certificate, and keys."""

    certificate: bytes
    key: bytes
    authority: bytes = b""  # empty: the user maintains the webhook configurations
    authority_key: bytes = b""  # empty: muster cannot sign with this authority

    def __repr__(self) -> str:
        return "Bundle(…)"

    @property
    def expires(self) -> datetime:
        """When the certificate expires."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc


def service_names(settings: Certificates) -> tuple[str, ...]:
    """The DNS names of the webhook's Service; the API server uses the first."""
    service, namespace = settings.service_name, settings.namespace
    return f"{service}.{namespace}.svc", f"{service}.{namespace}", f"{service}.{namespace}.svc.cluster.local"


def issue(settings: Certificates, now: datetime, old: Bundle | None = None) -> Bundle:
    """Issue a certificate, signed by the old authority if that outlives it, else by a new one trusted beside it."""
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
        builder(x509_name(hosts[0][:64]), authority.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return Bundle(_pem([certificate]), _key_pem(key), _pem(authorities), _key_pem(authority_key))


def renewal_reason(bundle: Bundle, settings: Certificates, now: datetime) -> str:
    """Why to renew a generated bundle; empty: no need."""
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
        return "its key does not match"
    if missing := set(service_names(settings)) - set(hosts):
        return f"it is not made out to {', '.join(sorted(missing))}"
    left = min(certificate.not_valid_after_utc, authority.not_valid_after_utc) - now
    if left <= timedelta(days=settings.renew_before_days):
        return f"it expires in {max(left.days, 0)} days" if left > timedelta() else "it has expired"
    return "it is not valid yet" if certificate.not_valid_before_utc > now + SLACK else ""


def _signer(old: Bundle, until: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    """The old authority with its key, if both are valid and it outlives `until`."""
    try:
        authority = x509.load_pem_x509_certificates(old.authority)[0]
        key = serialization.load_pem_private_key(old.authority_key, None)
        matches = authority.public_key() == key.public_key()
    except UNREADABLE:
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not matches:
        return None
    return (authority, key) if authority.not_valid_after_utc > until else None


def merge_authorities(authority: bytes, stored: bytes, now: datetime) -> bytes:
    """The authorities to trust: our own and the newest other stored one, two in all.

    Another replica may still serve a certificate of that one. Returns `stored` as it is where it holds the same
    certificates in another order, and where we have no authority.
    """
    own, before = read(authority), read(stored)
    others = sorted(
        (other for other in _unexpired(before, now) if other not in own), key=lambda other: other.not_valid_before_utc
    )
    merged = [*own, *others[::-1][: max(MOST_TRUSTED - len(own), 0)]]
    return stored if not own or set(merged) == set(before) else _pem(merged)


def _unexpired(certificates: Iterable[x509.Certificate], now: datetime) -> list[x509.Certificate]:
    return [certificate for certificate in certificates if certificate.not_valid_after_utc > now]


def read(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM file; none where they cannot be read."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except UNREADABLE:
        return []


def _new_authority(now: datetime, until: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509_name("muster webhook CA")
    authority = (
        builder(name, name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return authority, key


def _pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
