"""HTTPS_PROXY, HTTP_PROXY and NO_PROXY as Go reads them, and so kubectl.

Python's own functions ignore networks: with `NO_PROXY=10.0.0.0/8` they would send every request to the proxy.
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
    """The address of the proxy to a server; empty: none."""
    url = urlsplit(server)
    proxy = _read_variable(environment, f"{url.scheme.upper()}_PROXY") if url.scheme in PORTS else ""
    port = str(url.port) if url.port is not None else PORTS.get(url.scheme, "")
    if not proxy or bypasses_proxy((url.hostname or "").strip(), port, _read_variable(environment, "NO_PROXY")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def bypasses_proxy(host: str, port: str, no_proxy: str) -> bool:
    """Whether a host is reached without a proxy: it is this machine, or an entry of NO_PROXY matches.

    An entry is `*`, a network, an address, or a domain with its subdomains; one that begins with a dot or `*.` matches
    subdomains only. Addresses and domains may have a port.
    """
    if is_loopback(host):
        return True
    ip = _parse_ip(host)
    entries = [entry for text in no_proxy.split(",") if (entry := text.strip().lower())]
    return "*" in entries or any(_matches(entry, host.lower(), ip, port) for entry in entries)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    ip = _parse_ip(host)
    return host == "localhost" or (ip is not None and ip.is_loopback)


def redact_proxy(proxy: str) -> str:
    """A proxy's address without its user name and password."""
    url = urlsplit(proxy)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"


def _matches(entry: str, host: str, ip: Ip | None, port: str) -> bool:
    if _NETWORK.fullmatch(entry) and (inside := _in_network(entry, ip)) is not None:
        return inside
    name, entry_port = _split_port(entry)
    if entry_port not in ("", port):
        return False
    entry_ip = _parse_ip(name)
    if ip is not None or entry_ip is not None:
        return ip == entry_ip
    return bool(name) and _in_domain(host, name.removeprefix("*") if name.startswith("*.") else name)


def _in_network(entry: str, ip: Ip | None) -> bool | None:
    """None: the entry is not a network."""
    try:
        return ip is not None and ip in ip_network(entry, strict=False)
    except ValueError:
        return None


def _in_domain(host: str, domain: str) -> bool:
    return host.endswith(domain) if domain.startswith(".") else host == domain or host.endswith(f".{domain}")


def _split_port(entry: str) -> tuple[str, str]:
    """Host and port; the port is empty where the entry has none."""
    match = _WITH_PORT.fullmatch(entry)
    return (match["bracketed"] or match["plain"] or "", match["port"]) if match else (entry, "")


def _parse_ip(text: str) -> Ip | None:
    """None: not an address. An IPv4-mapped IPv6 address gives the IPv4 address."""
    try:
        ip = ip_address(text)
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def _read_variable(environment: Mapping[str, str], name: str) -> str:
    """Capitals come before small letters."""
    return environment.get(name) or environment.get(name.lower()) or ""
