"""Certificates: trusted at every moment, renewed in time, changed without a stop, and in no log."""

import asyncio
import base64
import copy
import re
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from msgspec.structs import replace

from muster.api.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS, Resource
from muster.config.settings import Certificates, Webhook
from muster.embedded.memory_cluster import MemoryCluster
from muster.kube.cluster import Raw
from muster.kube.errors import ApiError
from muster.observability.metrics import Metrics
from muster.observability.serving.x509 import builder, x509_name
from muster.webhook import handlers
from muster.webhook.certificates.certificate_bundle import (
    Bundle,
    CertificateError,
    issue,
    renewal_reason,
    service_names,
)
from muster.webhook.certificates.certificate_rotation import (
    CONFIGURATIONS,
    CertificateRotation,
    ServedCertificate,
    inject,
)
from muster.webhook.certificates.certificate_sources import FILES, CertificateFiles, CertificateSecret, build_source
from tests.support.admission_reviews import sent
from tests.support.factories import podgroup
from tests.support.served import served

SETTINGS = Certificates()
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = "muster-webhook.muster-system.svc"


class Shelf(MemoryCluster):
    """The embedded cluster; another client may be faster with a write."""

    def __init__(self) -> None:
        super().__init__()
        self.store.create(NAMESPACES, {"metadata": {"name": SETTINGS.namespace}})
        self.before_write: list[Callable[[], Awaitable[None]]] = []  # called once each: another replica

    async def create(self, resource: Resource, raw: Raw) -> Raw:
        if self.before_write:
            await self.before_write.pop()()
        return await super().create(resource, raw)

    async def replace(self, resource: Resource, raw: Raw, subresource: str = "") -> Raw:
        if self.before_write:
            await self.before_write.pop()()
        return await super().replace(resource, raw, subresource)

    def keep(self, data: Raw | None = None, **meta: Any) -> None:
        """A Secret that was there before."""
        named = {"name": SETTINGS.secret_name, "namespace": SETTINGS.namespace, **meta}
        self.store.create(SECRETS, {"metadata": named, "data": data or {}})

    def secret(self) -> Raw:
        return self.store.get(SECRETS, SETTINGS.namespace, SETTINGS.secret_name)

    def configure(self, *names: str) -> None:
        hooks = [{"name": name, "clientConfig": {"service": {"name": "muster-webhook"}}} for name in names]
        for resource in CONFIGURATIONS:
            self.store.create(resource, {"metadata": {"name": "muster"}, "webhooks": copy.deepcopy(hooks)})

    def hooks(self, resource: Resource = CONFIGURATIONS[0]) -> list[Raw]:
        webhooks: list[Raw] = self.store.get(resource, "", "muster")["webhooks"]
        return webhooks

    def trust(self, authority: bytes) -> None:
        for resource in CONFIGURATIONS:
            raw = self.store.get(resource, "", "muster")
            hooks = [
                hook | {"clientConfig": hook["clientConfig"] | {"caBundle": base64.b64encode(authority).decode()}}
                for hook in raw["webhooks"]
            ]
            self.store.replace(resource, raw | {"webhooks": hooks})

    def trusted(self) -> bytes:
        return base64.b64decode(self.hooks()[0]["clientConfig"]["caBundle"])


# making -------------------------------------------------------------------------------------------------------------


def test_a_certificate_is_made_out_to_the_service() -> None:
    """The names that an API server may use, for a server, signed by the authority, for as long as was said."""
    bundle = issue(SETTINGS, NOW)
    certificate = x509.load_pem_x509_certificate(bundle.certificate)
    (authority,) = x509.load_pem_x509_certificates(bundle.authority)
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(names.get_values_for_type(x509.DNSName)) == service_names(SETTINGS)
    assert service_names(SETTINGS)[0] == HOST
    assert certificate.not_valid_after_utc == NOW + timedelta(days=90)
    assert authority.not_valid_after_utc == NOW + timedelta(days=3650)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert renewal_reason(bundle, SETTINGS, NOW) == ""


@pytest.mark.parametrize(
    ("days", "reason"),
    [(0, ""), (59, ""), (60, "it expires in 30 days"), (89, "it expires in 1 days"), (91, "it has expired")],
)
def test_a_certificate_is_renewed_before_it_expires(days: int, reason: str) -> None:
    """90 days, of which the last 30 are for operators to notice that renewal fails."""
    assert renewal_reason(issue(SETTINGS, NOW), SETTINGS, NOW + timedelta(days=days)) == reason


def test_whatever_cannot_be_used_is_replaced() -> None:
    """Any content: rubbish, half of another bundle, other names, a time that is still to come."""
    first, second = issue(SETTINGS, NOW), issue(SETTINGS, NOW)
    moved = Certificates(namespace="elsewhere")
    assert renewal_reason(Bundle(b"", b""), SETTINGS, NOW) == "it cannot be read"
    assert renewal_reason(Bundle(b"x", b"y", b"z", b""), SETTINGS, NOW) == "it cannot be read"
    assert renewal_reason(Bundle(first.certificate, first.key, second.authority), SETTINGS, NOW) == "it cannot be read"
    assert (
        renewal_reason(Bundle(first.certificate, second.key, first.authority), SETTINGS, NOW)
        == "its key does not match"
    )
    assert renewal_reason(first, moved, NOW).startswith("it is not made out to muster-webhook.elsewhere")
    assert renewal_reason(first, SETTINGS, NOW - timedelta(days=1)) == "it is not valid yet"


def strange(pem: bytes) -> bytes:
    """The same certificate in a version that does not exist: an error of its own kind in the library."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    third, eighth = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"
    assert third in der
    return ssl.DER_cert_to_PEM_cert(der.replace(third, eighth, 1)).encode()


def test_a_certificate_of_no_known_version_is_replaced() -> None:
    """Of the webhook or of the authority, kept by muster or brought by the user: it ends nothing."""
    good = issue(SETTINGS, NOW)
    odd = strange(good.certificate), strange(good.authority)
    with pytest.raises(x509.InvalidVersion):
        x509.load_pem_x509_certificate(odd[0])
    for wrong in (replace(good, certificate=odd[0]), replace(good, authority=odd[1])):
        assert renewal_reason(wrong, SETTINGS, NOW) == "it cannot be read"
        assert renewal_reason(issue(SETTINGS, NOW, wrong), SETTINGS, NOW) == ""
    with pytest.raises(CertificateError):
        ServedCertificate().use(replace(good, certificate=odd[0]), HOST)


def test_renewing_keeps_the_authority() -> None:
    """What the API server trusts does not change every two months."""
    old = issue(SETTINGS, NOW)
    new = issue(SETTINGS, NOW + timedelta(days=60), old)
    assert new.authority == old.authority
    assert new.certificate != old.certificate
    assert new.key != old.key


def test_a_new_authority_is_trusted_beside_the_old_one() -> None:
    """Replicas that still show the old certificate are trusted until they show the new one."""
    old = issue(SETTINGS, NOW)
    later = NOW + timedelta(days=3600)
    new = issue(SETTINGS, later, old)
    first, second = x509.load_pem_x509_certificates(new.authority)
    assert second == x509.load_pem_x509_certificate(old.authority)
    x509.load_pem_x509_certificate(new.certificate).verify_directly_issued_by(first)
    assert renewal_reason(new, SETTINGS, later) == ""
    much_later = issue(SETTINGS, later + timedelta(days=100), new)
    assert x509.load_pem_x509_certificates(much_later.authority) == [first]


@pytest.mark.parametrize("old", [Bundle(b"x", b"x", b"x", b"x"), Bundle(b"", b"")])
def test_rubbish_is_no_authority(old: Bundle) -> None:
    """It is left behind."""
    assert renewal_reason(issue(SETTINGS, NOW, old), SETTINGS, NOW) == ""


def test_an_authority_with_a_key_of_another_kind_is_left_behind() -> None:
    """Ours are elliptic; a user may have stored another."""
    foreign = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    old = issue(SETTINGS, NOW)
    new = issue(SETTINGS, NOW, Bundle(old.certificate, old.key, old.authority, foreign))
    assert len(x509.load_pem_x509_certificates(new.authority)) == 2


def test_a_bundle_shows_nothing_of_itself() -> None:
    """It may end up in a log by mistake."""
    assert repr(issue(SETTINGS, NOW)) == "Bundle(…)"


# keeping ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [True, False], ids=["empty secret", "no secret"])
async def test_replicas_share_one_secret(exists: bool) -> None:
    """The first one makes it, the second one uses it; what else is in the Secret stays."""
    shelf = Shelf()
    if exists:
        shelf.keep({"mine": "eA=="}, labels={"a": "b"})
    one, second = (build_source(SETTINGS, shelf) for _ in range(2))
    first, version = await one.current(NOW), shelf.secret()["metadata"]["resourceVersion"]
    assert await second.current(NOW) == first
    stored = shelf.secret()
    assert set(stored["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"} | ({"mine"} if exists else set())
    assert stored["metadata"].get("labels") == ({"a": "b"} if exists else None)
    assert stored["metadata"]["resourceVersion"] == version, "written once"


@pytest.mark.parametrize("exists", [True, False], ids=["empty secret", "no secret"])
async def test_of_two_that_write_at_once_one_wins(exists: bool) -> None:
    """Both serve the stored bundle in the end."""
    shelf = Shelf()
    if exists:
        shelf.keep()
    faster: list[Bundle] = []

    async def other() -> None:
        faster.append(await build_source(SETTINGS, shelf).current(NOW))

    shelf.before_write.append(other)
    assert [await build_source(SETTINGS, shelf).current(NOW)] == faster


async def test_a_secret_that_changes_all_the_time_is_reported() -> None:
    """Five times in a row is not chance."""
    shelf = Shelf()
    shelf.keep()
    times = iter(range(5))

    async def touched() -> None:
        raw = shelf.secret()
        shelf.store.replace(SECRETS, raw | {"metadata": raw["metadata"] | {"labels": {"n": str(next(times))}}})

    shelf.before_write += [touched] * 5
    with pytest.raises(CertificateError, match="another client changes the Secret"):
        await build_source(SETTINGS, shelf).current(NOW)


async def test_a_refusal_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """403 is not 404: to make a new one would change nothing."""
    shelf = Shelf()

    async def forbidden(*_: Any) -> Raw:
        raise ApiError(403, "Forbidden", "no")

    monkeypatch.setattr(shelf, "get", forbidden)
    with pytest.raises(ApiError, match="no"):
        await CertificateSecret(shelf, "a", "b").load()
    with pytest.raises(ApiError, match="no"):
        await inject(shelf, Webhook(), b"x", NOW)
    monkeypatch.setattr(shelf, "create", forbidden)
    with pytest.raises(ApiError, match="no"):
        await CertificateSecret(shelf, "a", "b").store(issue(SETTINGS, NOW))


async def test_an_emptied_secret_gets_the_last_authority_beside_a_new_one() -> None:
    """Bundles rule 1, for any client that empties it; the certificate is of the new one."""
    shelf = Shelf()
    generated = build_source(SETTINGS, shelf)
    last = await generated.current(NOW)
    shelf.store.replace(SECRETS, shelf.secret() | {"data": {}})
    new, old = x509.load_pem_x509_certificates((await generated.current(NOW)).authority)
    assert old == x509.load_pem_x509_certificate(last.authority)
    assert new != old


@pytest.mark.parametrize("there", [True, False], ids=["no right to read", "no secret, no right to create"])
async def test_a_secret_that_is_out_of_reach_says_what_to_apply(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """The Secret is installed, as muster has no right to make it."""
    shelf = Shelf()

    async def forbidden(*_: Any) -> Raw:
        raise ApiError(403, "Forbidden", "no")

    monkeypatch.setattr(shelf, "get" if there else "create", forbidden)
    with pytest.raises(ApiError, match=r"hint: .*30-config\.yaml"):
        await build_source(SETTINGS, shelf).current(NOW)


async def test_broken_data_in_a_secret_is_replaced() -> None:
    """Any data that a user may have written."""
    shelf = Shelf()
    shelf.keep({"tls.crt": "%%", "tls.key": "x", "ca.crt": "eA=="})
    assert renewal_reason(await build_source(SETTINGS, shelf).current(NOW), SETTINGS, NOW) == ""


async def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """With its path."""
    (tmp_path / "file").touch()
    with pytest.raises(CertificateError, match=r"tls.crt: cannot be read"):
        await CertificateFiles(tmp_path / "file").current(NOW)


async def test_files_of_the_user_are_read_again(tmp_path: Path) -> None:
    """A mounted Secret changes while muster runs; `ca.crt` is optional."""
    source = build_source(Certificates(source="files", folder=str(tmp_path)), Shelf())
    assert isinstance(source, CertificateFiles)
    with pytest.raises(CertificateError, match=r"tls.crt: is missing"):
        await source.current(NOW)
    for bundle in (issue(SETTINGS, NOW), issue(SETTINGS, NOW)):
        (tmp_path / "tls.crt").write_bytes(bundle.certificate)
        (tmp_path / "tls.key").write_bytes(bundle.key)
        assert await source.current(NOW) == Bundle(bundle.certificate, bundle.key)


def bring(folder: Path, bundle: Bundle) -> None:
    for field in ("certificate", "key", "authority"):
        (folder / FILES[field]).write_bytes(getattr(bundle, field))


def chained() -> tuple[Bundle, bytes]:
    """A certificate with what stands between it and the root: in its file, and without that."""
    root_key, between_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    until = NOW + timedelta(days=9)
    root, between = x509_name("root"), x509_name("between")
    made = [
        builder(x509_name("leaf"), between, key.public_key(), NOW, until)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(between_key, hashes.SHA256()),
        builder(between, root, between_key.public_key(), NOW, until).sign(root_key, hashes.SHA256()),
        builder(root, root, root_key.public_key(), NOW, until).sign(root_key, hashes.SHA256()),
    ]
    leaf, middle, top = (certificate.public_bytes(serialization.Encoding.PEM) for certificate in made)
    return Bundle(leaf + middle, pem_of(key), top), leaf


async def test_files_that_belong_together_are_taken(tmp_path: Path) -> None:
    """Signed by the authority, by way of others that are in the file, or by itself."""
    for good in (issue(SETTINGS, NOW), chained()[0], made_out_to(HOST)):
        bring(tmp_path, good)
        assert await CertificateFiles(tmp_path).current(NOW) == replace(good, authority_key=b"")


async def test_files_that_do_not_belong_together_are_reported(tmp_path: Path) -> None:
    """Before the API server gets the authority; each with its path and a hint."""
    good, other = issue(SETTINGS, NOW), issue(SETTINGS, NOW)
    whole, leaf = chained()
    unreadable = r"ca\.crt: holds no certificate that can be read\n  hint: PEM; without the file"
    unsigned = r"tls\.crt: is not signed by .*ca\.crt\n  hint: bring both of one issuer"
    for wrong, message in (
        (replace(good, authority=b"rubbish"), unreadable),
        (replace(good, authority=good.key), unreadable),
        (replace(good, authority=strange(good.authority)), unreadable),
        (replace(good, authority=other.authority), unsigned),
        (replace(good, certificate=b"rubbish"), unsigned),
        (replace(whole, certificate=leaf), unsigned),
    ):
        bring(tmp_path, wrong)
        with pytest.raises(CertificateError, match=message):
            await CertificateFiles(tmp_path).current(NOW)


# telling the API server ---------------------------------------------------------------------------------------------


async def test_the_webhook_configurations_get_the_authority() -> None:
    """Every webhook of both configurations; once, and again only when something differs."""
    shelf = Shelf()
    shelf.configure("podgroups.muster.dev", "queues.muster.dev")
    settings = Webhook(failure_policy="Ignore", timeout_seconds=3)
    first, another = (issue(SETTINGS, NOW).authority for _ in range(2))
    assert await inject(shelf, settings, first, NOW) == 2
    for resource in CONFIGURATIONS:
        for hook in shelf.hooks(resource):
            assert base64.b64decode(hook["clientConfig"]["caBundle"]) == first
            assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 3)
            assert hook["clientConfig"]["service"] == {"name": "muster-webhook"}
    assert await inject(shelf, settings, first, NOW) == 0
    assert await inject(shelf, settings, another, NOW) == 2
    assert await inject(shelf, settings, b"", NOW) == 0  # the user's own business


@pytest.mark.parametrize("rubbish", [b"rubbish", b"-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n"])
async def test_rubbish_does_not_take_the_place_of_what_is_trusted(rubbish: bytes) -> None:
    """Rule 1: with it, the API server would trust no replica."""
    shelf, good = Shelf(), issue(SETTINGS, NOW).authority
    shelf.configure("podgroups.muster.dev")
    await inject(shelf, Webhook(), good, NOW)
    assert await inject(shelf, Webhook(), rubbish, NOW) == 0
    assert shelf.trusted() == good


async def test_what_the_user_trusts_is_left_alone() -> None:
    """Without an authority of ours, the user maintains the configuration: however many there are, and however old."""
    shelf = Shelf()
    shelf.configure("podgroups.muster.dev")
    await inject(shelf, Webhook(), b"", NOW)
    old = issue(Certificates(authority_validity_days=91), NOW - timedelta(days=100)).authority
    his = old + b"".join(issue(SETTINGS, NOW).authority for _ in range(3))
    shelf.trust(his)
    assert await inject(shelf, Webhook(), b"", NOW) == 0
    assert shelf.trusted() == his


async def test_only_certificates_go_to_the_webhook_configurations() -> None:
    """Rule 2: a key in the same file as the authority does not go to the configuration."""
    shelf, own = Shelf(), issue(SETTINGS, NOW)
    shelf.configure("podgroups.muster.dev")
    await inject(shelf, Webhook(), own.authority_key + own.authority, NOW)
    assert shelf.trusted() == own.authority


async def test_certificates_of_other_replicas_stay_trusted() -> None:
    """Replicas with other authorities, in any order, end with both in the configuration and write no more."""
    shelf, settings = Shelf(), Webhook()
    shelf.configure("podgroups.muster.dev")
    first, second = (issue(SETTINGS, NOW).authority for _ in range(2))
    await inject(shelf, settings, first, NOW)
    assert await inject(shelf, settings, second, NOW) == 2
    assert authorities(shelf.trusted()) == authorities(first + second)
    for authority in (first, second, second + first, first + second):
        assert await inject(shelf, settings, authority, NOW) == 0


async def test_of_older_authorities_the_newest_stays() -> None:
    """Two in all, and none that has expired; all of the user's own, however many."""
    shelf, settings = Shelf(), Webhook()
    shelf.configure("podgroups.muster.dev")
    brief = Certificates(authority_validity_days=91)
    days = [NOW + timedelta(days=i) for i in range(4)]
    oldest, older, newer = (issue(brief, day).authority for day in days[:3])
    for first, second in ((oldest, older), (older, oldest)):
        shelf.trust(first + second)
        await inject(shelf, settings, newer, days[3])
        assert authorities(shelf.trusted()) == authorities(newer + older)
    own = issue(SETTINGS, NOW).authority
    await inject(shelf, settings, own, NOW + timedelta(days=100))
    assert authorities(shelf.trusted()) == authorities(own)
    await inject(shelf, settings, oldest + older + newer, days[3])
    assert authorities(shelf.trusted()) == authorities(oldest + older + newer)


def authorities(pem: bytes) -> set[x509.Certificate]:
    return set(x509.load_pem_x509_certificates(pem))


@pytest.mark.parametrize("restarted", [False, True], ids=["the same replica", "a new replica"])
async def test_an_emptied_secret_is_filled_while_all_replicas_stay_trusted(restarted: bool) -> None:
    """The way to renew everything at once: a new authority, and the old one is trusted while some show it."""
    shelf, settings = Shelf(), Webhook()
    shelf.keep()
    shelf.configure("podgroups.muster.dev")

    def replica() -> CertificateRotation:
        return CertificateRotation(
            ServedCertificate(), build_source(SETTINGS, shelf), shelf, settings, None, lambda: NOW, settle_seconds=0
        )

    first, second = replica(), replica()
    for rotation in (first, second):
        await rotation.reconcile()
    assert second._served is not None
    before = second._served
    shelf.store.replace(SECRETS, shelf.secret() | {"data": {}})
    await (replica() if restarted else first).reconcile()
    assert signed_by_one_of(shelf.trusted(), before)
    await second.reconcile()
    assert second._served.authority_key != before.authority_key
    assert signed_by_one_of(shelf.trusted(), second._served)
    assert len(authorities(shelf.trusted())) == 2


def signed_by_one_of(trusted: bytes, bundle: Bundle) -> bool:
    certificate = x509.load_pem_x509_certificate(bundle.certificate)
    signer = x509.load_pem_x509_certificates(bundle.authority)[0]
    certificate.verify_directly_issued_by(signer)
    return signer in authorities(trusted)


async def test_configurations_that_are_not_there_are_left_out() -> None:
    """The mutating one is an option."""
    shelf = Shelf()
    shelf.configure("a")
    shelf.store.delete(CONFIGURATIONS[1], "", "muster")
    assert await inject(shelf, Webhook(), issue(SETTINGS, NOW).authority, NOW) == 1


@pytest.mark.parametrize(("seconds", "written"), [(1, 1), (30, 3)])
async def test_pods_are_created_whatever_becomes_of_the_webhook(seconds: int, written: int) -> None:
    """`Fail` is for PodGroups; a pod that is not grouped while it is created is grouped afterwards."""
    shelf = Shelf()
    shelf.configure("podgroups.muster.dev")
    hooks = [{"name": "pods.muster.dev", "clientConfig": {"service": {"name": "muster-webhook"}}}]
    shelf.store.create(MUTATING_WEBHOOKS, {"metadata": {"name": "muster-pods"}, "webhooks": hooks})
    settings, authority = Webhook(timeout_seconds=seconds), issue(SETTINGS, NOW).authority
    assert await inject(shelf, settings, authority, NOW) == 2, "what is not switched on is left alone"
    assert await inject(shelf, replace(settings, group_pods=True), authority, NOW) == 1
    (hook,) = shelf.store.get(MUTATING_WEBHOOKS, "", "muster-pods")["webhooks"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", written)
    assert base64.b64decode(hook["clientConfig"]["caBundle"]) == authority
    assert {hook["failurePolicy"] for hook in shelf.hooks()} == {"Fail"}


async def test_the_webhooks_of_grove_fail_as_those_of_podgroups() -> None:
    """They are configurations of their own, and trusted in the same way."""
    shelf = Shelf()
    hooks = [{"name": "validate-grove.muster.dev", "clientConfig": {"service": {"name": "muster-webhook"}}}]
    for resource in CONFIGURATIONS:
        shelf.store.create(resource, {"metadata": {"name": "muster-grove"}, "webhooks": hooks})
    authority = issue(SETTINGS, NOW).authority
    assert await inject(shelf, Webhook(), authority, NOW) == 2
    for resource in CONFIGURATIONS:
        (hook,) = shelf.store.get(resource, "", "muster-grove")["webhooks"]
        assert hook["failurePolicy"] == "Fail"
        assert base64.b64decode(hook["clientConfig"]["caBundle"]) == authority


# showing ------------------------------------------------------------------------------------------------------------


async def fetch(port: int, authority: bytes) -> tuple[int, bytes]:
    """As the API server does: TLS to the Service's name, trusting the authority only; the certificate it was shown."""
    trust = ssl.create_default_context(cadata=authority.decode())
    body = sent(podgroup(minMember=1))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=HOST)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(b"POST /validate HTTP/1.1\r\nhost: muster\r\nconnection: close\r\n")
    writer.write(b"content-length: %d\r\n\r\n%s" % (len(body), body))
    status = (await reader.read()).split()[1]
    writer.close()
    await writer.wait_closed()
    return int(status), shown


async def test_a_certificate_is_changed_without_a_stop() -> None:
    """The same socket, the next handshake: another authority, another certificate, then one of another kind."""
    now = datetime.now(UTC)
    served_certificate = ServedCertificate()
    assert served_certificate.problem() == "there is none yet; if that lasts, see the log"
    async with served(handlers.build_app(Webhook()), tls=served_certificate.context) as (_, port):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await fetch(port, issue(SETTINGS, now).authority)
        for _ in range(2):
            bundle = issue(SETTINGS, now)
            served_certificate.use(bundle, HOST)
            status, shown = await fetch(port, bundle.authority)
            assert status == 200
            assert shown == x509.load_pem_x509_certificate(bundle.certificate).public_bytes(serialization.Encoding.DER)
            assert served_certificate.problem() == ""
        with pytest.raises(ssl.SSLCertVerificationError):
            await fetch(port, issue(SETTINGS, now).authority)


def test_an_unusable_certificate_leaves_the_old_one() -> None:
    """And says why, without the key."""
    served_certificate = ServedCertificate(lambda: NOW)
    first, second = issue(SETTINGS, NOW), issue(SETTINGS, NOW)
    served_certificate.use(first, HOST)
    for wrong in (Bundle(first.certificate, second.key), Bundle(b"x", b"y"), Bundle(b"", b"")):
        with pytest.raises(CertificateError, match="cannot be used") as raised:
            served_certificate.use(wrong, HOST)
        assert "PRIVATE" not in str(raised.value)
    assert served_certificate.problem() == ""


@pytest.mark.parametrize(
    ("days", "problem"),
    [
        (91, "it expired at 2026-04-01T00:00:00Z; bring a new one, or see in the log why it was not renewed"),
        (-1, "it is not valid before 2025-12-31T23:55:00Z; bring one that is, or set the clock"),
        (0, ""),
    ],
)
def test_a_certificate_out_of_its_time_is_not_ready(days: int, problem: str) -> None:
    """The API server rejects it."""
    served_certificate = ServedCertificate(lambda: NOW + timedelta(days=days))
    served_certificate.use(issue(SETTINGS, NOW), HOST)
    assert (served_certificate.name, served_certificate.problem()) == ("certificate", problem)


def made_out_to(*names: str) -> Bundle:
    """A certificate that signs itself, for names of any kind."""
    key = ec.generate_private_key(ec.SECP256R1())
    draft = builder(x509_name("self"), x509_name("self"), key.public_key(), NOW, NOW + timedelta(days=9))
    if names:
        alternative_names = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        draft = draft.add_extension(alternative_names, critical=False)
    pem = draft.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Bundle(pem, pem_of(key), pem)


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.mark.parametrize(
    ("names", "shown_names"),
    [
        ((HOST,), ""),
        (("another.svc", HOST.upper()), ""),
        (("*.muster-system.svc",), ""),
        (("*.svc",), "`*.svc`"),
        (("muster-webhook.*.svc",), "`muster-webhook.*.svc`"),
        (("*",), "`*`"),
        (("muster-webhook.elsewhere.svc",), "`muster-webhook.elsewhere.svc`"),
        (("a", "b", "c", "d"), "`a`, `b`, `c`"),
        ((), "no name"),
    ],
)
def test_a_certificate_for_another_name_is_not_ready(names: tuple[str, ...], shown_names: str) -> None:
    """The API server asks for the Service by its name; a star stands for one label."""
    served_certificate = ServedCertificate(lambda: NOW)
    served_certificate.use(made_out_to(*names), HOST)
    way_out = "bring one that is, or correct `webhook.certificates.serviceName` and `namespace`"
    assert served_certificate.problem() == (
        f"it is made out to {shown_names}, not to `{HOST}`; {way_out}" if shown_names else ""
    )


async def test_the_served_certificate_is_trusted_on_every_day_of_a_year() -> None:
    """Day by day: what is shown is valid and signed by what the API server holds, authority changes included."""
    settings = Webhook(certificates=Certificates(validity_days=30, renew_before_days=10, authority_validity_days=100))
    day, metrics, shelf = [NOW], Metrics(), Shelf()
    shelf.configure("podgroups.muster.dev")
    doors = [ServedCertificate(lambda: day[0]) for _ in range(2)]
    replicas = [
        CertificateRotation(
            served_certificate,
            build_source(settings.certificates, shelf),
            shelf,
            settings,
            metrics,
            lambda: day[0],
            settle_seconds=0,
        )
        for served_certificate in doors
    ]
    trusted: set[bytes] = set()
    for i in range(365):
        day[0] = NOW + timedelta(days=i)
        for replica in replicas:
            await replica.reconcile()
            assert replica._served is not None
            assert renewal_reason(replica._served, settings.certificates, day[0]) == ""
            assert replica._served.authority == shelf.trusted()
            trusted.add(shelf.trusted())
        assert [served_certificate.problem() for served_certificate in doors] == ["", ""]
    assert 4 <= len(trusted) <= 12
    assert metrics.registry.get_sample_value("muster_certificate_expiry_timestamp_seconds", {}) is not None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (replace(issue(SETTINGS, NOW), authority=b"rubbish"), "ca.crt: holds no certificate"),
        (replace(issue(SETTINGS, NOW), authority=issue(SETTINGS, NOW).authority), "tls.crt: is not signed by"),
        (
            made_out_to("elsewhere"),
            "the new certificate is not used, the old one stays: it is made out to `elsewhere`",
        ),
        (issue(SETTINGS, NOW + timedelta(days=1)), "the old one stays: it is not valid before 2026-01-01T23:55:00Z"),
        (issue(SETTINGS, NOW - timedelta(days=100)), "the old one stays: it expired at"),
    ],
    ids=["rubbish", "another authority", "another name", "not yet", "no more"],
)
async def test_a_good_certificate_stays_where_the_new_one_is_bad(tmp_path: Path, wrong: Bundle, problem: str) -> None:
    """Files, as the user changes them: what is shown and what is trusted change together, or not at all."""
    settings = Webhook(certificates=Certificates(source="files", folder=str(tmp_path)))
    shelf, served_certificate, good = Shelf(), ServedCertificate(lambda: NOW), issue(SETTINGS, NOW)
    shelf.configure("podgroups.muster.dev")
    rotation = CertificateRotation(
        served_certificate,
        build_source(settings.certificates, shelf),
        shelf,
        settings,
        None,
        lambda: NOW,
        settle_seconds=0,
    )
    bring(tmp_path, good)
    await rotation.reconcile()
    before, shown = shelf.hooks(), rotation._served
    bring(tmp_path, wrong)
    for _ in range(2):
        with pytest.raises(CertificateError, match=re.escape(problem)):
            await rotation.reconcile()
    assert (shelf.hooks(), rotation._served, served_certificate.problem()) == (before, shown, "")
    better = issue(SETTINGS, NOW)
    bring(tmp_path, better)
    await rotation.reconcile()
    assert (rotation._served, served_certificate.problem()) == (replace(better, authority_key=b""), "")


async def test_a_rejected_certificate_is_logged_at_every_reconcile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start there is nothing better to show; the log has the reason of `/readyz`, and one that is no better
    takes its place."""
    settings = Webhook(certificates=Certificates(source="files", folder=str(tmp_path)))
    shelf, served_certificate, day, logged = Shelf(), ServedCertificate(lambda: day[0]), [NOW], []
    rotation = CertificateRotation(
        served_certificate, build_source(settings.certificates, shelf), shelf, settings, None, lambda: day[0], 0
    )
    monkeypatch.setattr(rotation._log, "warning", lambda event, **more: logged.append((event, more["problem"])))
    event = "the API server rejects the certificate"
    bring(tmp_path, made_out_to("elsewhere"))
    for _ in range(2):
        await rotation.reconcile()
    assert logged == [(event, served_certificate.problem())] * 2
    assert "`elsewhere`" in served_certificate.problem()
    bring(tmp_path, issue(SETTINGS, NOW + timedelta(days=1)))
    await rotation.reconcile()
    assert "not valid before" in served_certificate.problem()
    assert logged[2:] == [(event, served_certificate.problem())]
    day[0] += timedelta(days=1)
    await rotation.reconcile()
    assert (len(logged), served_certificate.problem()) == (3, "")


@pytest.mark.parametrize(("authority_days", "waits"), [(3650, False), (120, True)], ids=["certificate", "authority"])
async def test_a_new_authority_is_injected_before_its_certificate_is_served(
    monkeypatch: pytest.MonkeyPatch, authority_days: int, waits: bool
) -> None:
    """API servers get it through a watch, after some delay; a certificate of the old one needs no wait."""
    settings = Webhook(certificates=Certificates(authority_validity_days=authority_days))
    day, shelf, served_certificate = [NOW], Shelf(), ServedCertificate()
    shelf.configure("podgroups.muster.dev")
    rotation = CertificateRotation(
        served_certificate, build_source(settings.certificates, shelf), shelf, settings, None, lambda: day[0]
    )
    await rotation.reconcile()
    first, seen = rotation._served, []

    async def nap(seconds: float) -> None:
        if seconds:
            seen.append((seconds, rotation._served is first, shelf.trusted().count(b"BEGIN CERTIFICATE")))

    monkeypatch.setattr("muster.webhook.certificates.certificate_rotation.asyncio.sleep", nap)
    day[0] += timedelta(days=65)
    await rotation.reconcile()
    assert rotation._served != first
    assert seen == ([(5.0, True, 2)] if waits else []), "seconds, still the old one, both trusted"


async def test_a_failed_reconcile_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cluster does, the loop goes on; only being cancelled ends it."""
    tries: list[int] = []

    class Moody:
        async def current(self, now: datetime) -> Bundle:
            tries.append(1)
            match len(tries):
                case 1:
                    raise ApiError(500, "InternalError", "not now")
                case 2:
                    raise OSError("no route")
                case 3:
                    raise LookupError("nobody thought of this")
                case _:
                    return issue(SETTINGS, now)

    naps: list[float] = []

    async def nap(seconds: float) -> None:
        naps.extend([seconds] if seconds else [])
        if len(naps) == 4:
            raise asyncio.CancelledError

    served_certificate = ServedCertificate()
    monkeypatch.setattr("muster.webhook.certificates.certificate_rotation.asyncio.sleep", nap)
    with pytest.raises(asyncio.CancelledError):
        await CertificateRotation(served_certificate, Moody(), Shelf(), Webhook()).run()
    assert naps == [60, 60, 60, 60]
    assert served_certificate.problem() == ""
