"""A certificate authority of one server, generated at each start: clients trust it through the kubeconfig.

Rule: the key of the authority never leaves `generate`; nothing can be signed with it later.
"""

import ipaddress
import ssl
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from muster.observability.serving.x509 import builder, usage, x509_name

VALID_DAYS = 365


class ServerCertificates(Struct, frozen=True):
    """PEM: the CA that clients trust, and the certificate and key of the server."""

    authority: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ServerCertificates(…)"  # a key has no place in logs


def generate(hosts: Iterable[str], now: datetime) -> ServerCertificates:
    """A certificate for these hosts, signed by an authority whose key is dropped."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509_name("muster embedded CA")
    until = now + timedelta(days=VALID_DAYS)
    authority = (
        builder(authority_name, authority_name, authority_key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        builder(x509_name("muster"), authority_name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    return ServerCertificates(_pem(authority), _pem(certificate), _key_pem(key))


def server_context(certificates: ServerCertificates, folder: Path) -> ssl.SSLContext:
    """The TLS context of a listening socket. Python reads keys from files only: the file is deleted on return."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    chain = folder / "serving.pem"
    chain.touch(mode=0o600)
    try:
        chain.write_bytes(certificates.key + certificates.certificate)
        context.load_cert_chain(chain)
    finally:
        chain.unlink()
    return context


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
