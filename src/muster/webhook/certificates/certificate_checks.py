"""Whether an API server takes a certificate from the webhook.

Rule: decided as in Go's TLS: by time, by the alternative names (the subject does not count), and by signatures that
lead to what is trusted.
"""

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509

from muster.observability.x509 import SLACK
from muster.webhook.certificates.certificate_bundle import UNREADABLE

_MOST_NAMES = 3  # of somebody else's certificate, in one line


def unfit(certificate: x509.Certificate, host: str, now: datetime) -> str:
    """Why it does not, and the way out; empty: it does. `host` is what the API server calls us."""
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
    found = ", ".join(f"`{name[:80]}`" for name in names[:_MOST_NAMES]) or "no name"
    return (
        f"it is made out to {found}, not to `{host}`; bring one that is, "
        "or correct `webhook.certificates.serviceName` and `namespace`"
    )


def anchored(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Whether the first of the chain is an authority, or signed by one, be it by way of others of the chain."""
    ways, seen = list(chain[:1]), list(chain[:1])
    while ways:
        one = ways.pop()
        if one in authorities or any(_signed(one, authority) for authority in authorities):
            return True
        further = [other for other in chain if other not in seen and _signed(one, other)]
        ways += further
        seen += further
    return False


def _signed(one: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        one.verify_directly_issued_by(signer)
    except UNREADABLE:
        return False
    return True


def _names(certificate: x509.Certificate) -> list[str]:
    """None where they cannot be read."""
    try:
        known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return known.get_values_for_type(x509.DNSName)
    except UNREADABLE:
        return []


def _covers(name: str, host: str) -> bool:
    """A star stands for the whole first label, and for no more."""
    return name.lower() in (host, f"*.{host.partition('.')[2]}")


def _time(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
