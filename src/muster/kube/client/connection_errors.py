"""Why a request has no response, and where it failed: at the API server, or at the proxy before it.

Messages of the libraries are not passed on: they can hold headers, or the password of a proxy.
"""

import ssl
from typing import Final

from muster.kube.client.connector import ConnectFailed, ConnectTimeout, ProxyRefused
from muster.kube.client.credentials import Access
from muster.kube.client.proxy import redact_proxy
from muster.kube.errors import ApiError, Unanswered

WRONG_NAME: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
WRONG_TIME: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def to_api_error(error: Exception, request: str, access: Access) -> ApiError:
    """The error for the caller; `sent` is false only where the API server cannot have received the request."""
    match error:
        case ProxyRefused(status=status):
            return Unanswered(503, f"{_proxy(access)}: {_refused(status)}", sent=False)
        case ConnectFailed(cause=cause, at_proxy=at_proxy):
            peer = _proxy(access) if at_proxy else access.server
            return Unanswered(503, f"{peer}: {_unreachable(cause)}", sent=False)
        case ConnectTimeout():
            return Unanswered(504, f"{access.server}: cannot be reached in time{_through(access)}", sent=False)
        case TimeoutError():
            return Unanswered(504, f"{request}: no answer in time", sent=True)
        case ValueError():
            return ApiError(400, "BadRequest", f"{request}: not a request that can be sent")
        case _:
            return Unanswered(503, f"{request}: the connection{_through(access)} was lost", sent=True)


def _proxy(access: Access) -> str:
    return f"{access.server}: its proxy {redact_proxy(access.proxy)}"


def _through(access: Access) -> str:
    """The proxy, where there is one: it may have failed as well."""
    return f" through its proxy {redact_proxy(access.proxy)}" if access.proxy else ""


def _refused(status: int) -> str:
    if status == 407:
        return "asks for another user name and password (407)"
    return f"refuses the connection ({status})"


def _unreachable(cause: OSError) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _untrusted(cause)
    return f"cannot be reached: {cause.strerror or 'no answer'}"


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    cause = error.verify_message.rstrip(".") or "no reason given"
    match error.verify_code:
        case code if code in WRONG_NAME:
            return (
                f"its certificate is for another name ({cause}): see `server` and `tls-server-name` of the kubeconfig"
            )
        case code if code in WRONG_TIME:
            return f"its certificate is out of date ({cause}): renew it, or set this machine's clock"
        case _:
            return f"its certificate is not trusted by the CA given ({cause})"
