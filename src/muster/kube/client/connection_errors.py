"""Why a request has no answer, and who is to blame: the API server, or the proxy before it.

In our words: those of the libraries can hold headers, or the password of a proxy.
"""

import ssl
from typing import Final

import aiohttp
from yarl import URL

from muster.kube.client.credentials import Access
from muster.kube.client.proxy import redact_proxy
from muster.kube.errors import ApiError, Unanswered

WRONG_NAME: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
WRONG_TIME: Final = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def failure(error: Exception, request: str, access: Access) -> ApiError:
    """What the caller is told; `sent` is false only where the API server cannot have seen the request."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return Unanswered(503, f"{_proxy(access)}: {_turned_away(error.status)}", sent=False)
        case aiohttp.ClientConnectorError():
            return Unanswered(503, f"{_peer(error, access)}: {_unreached(error)}", sent=False)
        case aiohttp.ConnectionTimeoutError():
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
    """Who else it may have been."""
    return f" through its proxy {redact_proxy(access.proxy)}" if access.proxy else ""


def _peer(error: aiohttp.ClientConnectorError, access: Access) -> str:
    """Whom the connection was to; through a proxy, only TLS goes as far as the API server."""
    proxy = URL(access.proxy)
    return _proxy(access) if (error.host, error.port) == (proxy.raw_host, proxy.port) else access.server


def _turned_away(status: int) -> str:
    if status == 407:
        return "wants another user name and password (407)"
    return f"does not let us through ({status})"


def _unreached(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _unverified(error.certificate_error)
    return f"cannot be reached: {error.os_error.strerror or 'no answer'}"


def _unverified(error: Exception) -> str:
    said = error.verify_message.rstrip(".") if isinstance(error, ssl.SSLCertVerificationError) else "no reason given"
    match getattr(error, "verify_code", 0):
        case code if code in WRONG_NAME:
            return f"its certificate is for another name ({said}): see `server` and `tls-server-name` of the kubeconfig"
        case code if code in WRONG_TIME:
            return f"its certificate is out of date ({said}): renew it, or set this machine's clock"
        case _:
            return f"its certificate is not trusted by the CA given ({said})"
