"""Through which proxy an address is reached: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY mean to Go, and so to kubectl.

Python's own reading of them knows no networks: with `NO_PROXY=10.0.0.0/8` it would send everything to the proxy.
"""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

PORTS: Final = {"http": "80", "https": "443"}
_WITH_PORT: Final = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^:\[\]]*)):(?P<port>[^:\[\]]*)")
_NETWORK: Final = re.compile(r"[^/]+/[0-9]+")

Ip = IPv4Address | IPv6Address


def find_proxy(server: str, environment: Mapping[str, str]) -> str:
    """The proxy's address; empty: none. Capitals come first."""
    at = urlsplit(server)
    proxy = _read_variable(environment, f"{at.scheme.upper()}_PROXY") if at.scheme in PORTS else ""
    port = str(at.port) if at.port is not None else PORTS.get(at.scheme, "")
    if not proxy or bypasses_proxy((at.hostname or "").strip(), port, _read_variable(environment, "NO_PROXY")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def bypasses_proxy(host: str, port: str, no_proxy: str) -> bool:
    """Whether no proxy stands before a host: it is this machine, or named.

    An entry is `*`, a network, an address, or a domain with all below it; with a dot or `*.` before it, only those
    below it. Addresses and domains may name a port.
    """
    if is_loopback(host):
        return True
    ip = _parse_ip(host)
    entries = [entry for each in no_proxy.split(",") if (entry := each.strip().lower())]
    return "*" in entries or any(_matches(entry, host.lower(), ip, port) for entry in entries)


def is_loopback(host: str) -> bool:
    """Whether it is this machine."""
    ip = _parse_ip(host)
    return host == "localhost" or (ip is not None and ip.is_loopback)


def redact_proxy(proxy: str) -> str:
    """A proxy's address without its user name and password."""
    at = urlsplit(proxy)
    return f"{at.scheme}://{at.netloc.rpartition('@')[2]}"


def _matches(entry: str, host: str, ip: Ip | None, port: str) -> bool:
    if _NETWORK.fullmatch(entry) and (inside := _in_network(entry, ip)) is not None:
        return inside
    name, wanted = _split_port(entry)
    if wanted not in ("", port):
        return False
    named = _parse_ip(name)
    if ip is not None or named is not None:
        return ip == named
    return bool(name) and _in_domain(host, name.removeprefix("*") if name.startswith("*.") else name)


def _in_network(entry: str, ip: Ip | None) -> bool | None:
    """None: it is not a network."""
    try:
        return ip is not None and ip in ip_network(entry, strict=False)
    except ValueError:
        return None


def _in_domain(host: str, domain: str) -> bool:
    return host.endswith(domain) if domain.startswith(".") else host == domain or host.endswith(f".{domain}")


def _split_port(entry: str) -> tuple[str, str]:
    """Host and port; an entry without a port is all host."""
    found = _WITH_PORT.fullmatch(entry)
    return (found["bracketed"] or found["plain"] or "", found["port"]) if found else (entry, "")


def _parse_ip(text: str) -> Ip | None:
    """An IPv4 address that is written as an IPv6 address is the IPv4 address."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _read_variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""
