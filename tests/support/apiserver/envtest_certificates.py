"""Certificates for a server of the tests: good for loopback and two days."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Issuer = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]
NAMES = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
USES = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


def certificates(folder: Path) -> None:
    """A CA, a server at 127.0.0.1 and an administrator."""
    ca_key, ca = _certificate(folder, "ca", [], None)
    _certificate(folder, "server", [], (ca_key, ca))
    _certificate(folder, "admin", ["system:masters"], (ca_key, ca))


def _certificate(folder: Path, name: str, groups: list[str], issuer: Issuer | None) -> Issuer:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        + [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    )
    now = datetime.datetime.now(datetime.UTC)
    signer, signed_by = (issuer[0], issuer[1].subject) if issuer else (key, subject)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(NAMES), critical=False)
        .add_extension(x509.ExtendedKeyUsage(USES), critical=False)
        .sign(signer, hashes.SHA256())
    )
    (folder / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / f"{name}.key").write_bytes(private)
    (folder / f"{name}.key").chmod(0o600)
    return key, made
