"""Whether an API server accepts the webhook's certificate.

Rule: the same checks as Go's TLS: validity period, alternative names (the subject does not count), and a chain of
signatures to a trusted authority.
"""

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509

from muster.observability.serving.x509 import SLACK
from muster.webhook.certificates.certificate_bundle import UNREADABLE

_MOST_NAMES = 3  # that one message lists


def certificate_problem(certificate: x509.Certificate, host: str, now: datetime) -> str:
    """Why the API server rejects it, with a hint; empty: it accepts it. `host` is the name that the API server uses."""
    if certificate.not_valid_after_utc <= now:
        return (
            f"it expired at {_time(certificate.not_valid_after_utc)}; "
            "bring a new one, or see in the log why it was not renewed"
        )
    if certificate.not_valid_before_utc > now + SLACK:
        return f"it is not valid before {_time(certificate.not_valid_before_utc)}; bring one that is, or set the clock"
    names = _names(certificate)
    if any(_covers(name, host) for name in names):
        return ""
    listed = ", ".join(f"`{name[:80]}`" for name in names[:_MOST_NAMES]) or "no name"
    return (
        f"it is made out to {listed}, not to `{host}`; bring one that is, "
        "or correct `webhook.certificates.serviceName` and `namespace`"
    )


def is_trusted_chain(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Whether the first certificate is an authority, or signed by one, directly or through others of the chain."""
    pending, seen = list(chain[:1]), list(chain[:1])
    while pending:
        certificate = pending.pop()
        if certificate in authorities or any(_is_signed_by(certificate, authority) for authority in authorities):
            return True
        signers = [signer for signer in chain if signer not in seen and _is_signed_by(certificate, signer)]
        pending += signers
        seen += signers
    return False


def _is_signed_by(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except UNREADABLE:
        return False
    return True


def _names(certificate: x509.Certificate) -> list[str]:
    """Its DNS names; none where they cannot be read."""
    try:
        known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return known.get_values_for_type(x509.DNSName)
    except UNREADABLE:
        return []


def _covers(name: str, host: str) -> bool:
    """Whether the name matches; a star stands for exactly the first label."""
    return name.lower() in (host, f"*.{host.partition('.')[2]}")


def _time(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
