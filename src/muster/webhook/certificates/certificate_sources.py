"""Where the webhook's certificates come from: made by muster and kept in a Secret, or brought by the user in files.

Rule: replicas that share a Secret write it with its resource version, so that one of them wins and the others follow.
"""

import base64
import binascii
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from muster.api.resources import SECRETS
from muster.config.settings import Certificates
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from muster.observability.logging import logger
from muster.webhook.certificates.certificate_bundle import Bundle, CertificateError, due, issue, read
from muster.webhook.certificates.certificate_checks import anchored

FILES = {"authority": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
ATTEMPTS = 5  # to store a new bundle while other replicas do the same


class CertificateSource(Protocol):
    """Where the bundle to show comes from."""

    async def current(self, now: datetime) -> Bundle:
        """What should be shown now."""


class InSecret:
    """In a Secret that all replicas share."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster, self._namespace, self._name = cluster, namespace, name
        self._seen: Raw | None = None

    async def load(self) -> Bundle | None:
        """None: there is no such Secret, or it has no certificate yet."""
        try:
            self._seen = await self._cluster.get(SECRETS, self._namespace, self._name)
        except ApiError as error:
            if error.status != 404:
                raise _hinted(error) from None
            self._seen = None
        data = (self._seen or {}).get("data") or {}
        found = {field: decoded(data.get(name)) for field, name in FILES.items()}
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
                raise _hinted(error) from None
            return False
        return True


def _hinted(error: ApiError) -> ApiError:
    """The Secret is not there, and we may not make it; or somebody took the right to it."""
    if error.status in (403, 404):
        error.hint = "the Secret and the right to it are installed: apply 20-rbac.yaml and 30-config.yaml, or the chart"
    return error


def decoded(text: Any) -> bytes:
    """Base64; nothing where it is none."""
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""


class Generated:
    """Made by muster, and renewed in time."""

    def __init__(self, keeper: InSecret, settings: Certificates) -> None:
        self._keeper, self._settings = keeper, settings
        self._last: Bundle | None = None

    async def current(self, now: datetime) -> Bundle:
        """What is kept, unless it is due; whoever stores a new one first decides for all."""
        for _ in range(ATTEMPTS):
            kept = await self._keeper.load()
            reason = due(kept, self._settings, now) if kept else "there is none"
            if kept and not reason:
                self._last = kept
                return kept
            made = issue(self._settings, now, kept or self._lost())
            if await self._keeper.store(made):
                self._last = made
                logger("certificates").info("new certificate", reason=reason, expires=made.expires.isoformat())
                return made
        raise CertificateError("the certificate could not be stored: somebody else changes it all the time")

    def _lost(self) -> Bundle | None:
        """Who empties the Secret wants a new authority; the last one is trusted until all replicas show the new one."""
        return replace(self._last, authority_key=b"") if self._last else None


class Brought:
    """The user's files, as they are now: mounted Secrets change under our feet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self, now: datetime) -> Bundle:  # noqa: ARG002 (the user renews them)
        """`tls.crt` and `tls.key`, and `ca.crt` where it is; CertificateError where they do not belong together."""
        found = {field: _bytes(self._folder / FILES[field]) for field in ("certificate", "key", "authority")}
        for field in ("certificate", "key"):
            if not found[field]:
                raise CertificateError(
                    f"{self._folder / FILES[field]}: is missing", hint="a Secret of type kubernetes.io/tls has it"
                )
        bundle = Bundle(**found)
        if bundle.authority:
            self._judge(bundle)
        return bundle

    def _judge(self, bundle: Bundle) -> None:
        """What is wrong here would be written to the webhook configurations, and nobody would be trusted any more."""
        shown, trusted = (self._folder / FILES[field] for field in ("certificate", "authority"))
        authorities = read(bundle.authority)
        if not authorities:
            raise CertificateError(
                f"{trusted}: holds no certificate that can be read",
                hint="PEM; without the file, the webhook configurations are left to you",
            )
        if not anchored(read(bundle.certificate), authorities):
            raise CertificateError(
                f"{shown}: is not signed by {trusted}", hint="bring both of one issuer, with what stands between them"
            )


def source(settings: Certificates, cluster: Cluster) -> CertificateSource:
    """As the configuration says."""
    if settings.source == "files":
        return Brought(Path(settings.folder))
    return Generated(InSecret(cluster, settings.namespace, settings.secret_name), settings)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror or error}") from None
