"""Proxies as Go reads them from the environment (golang.org/x/net/http/httpproxy), and so kubectl."""

import pytest

from muster.cluster.kubernetes_proxy import proxy_of

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        # everything
        ("https://api.test", "*", True),
        ("https://10.1.2.3", "other.test, *", True),
        ("https://api.test", "", False),
        ("https://api.test", " , ,", False),
        # networks
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "192.168.0.0/16,10.1.2.3/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fe80::1]:6443", "fd00::/8", False),
        ("https://[::ffff:10.1.2.3]", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.0.0.0/255.0.0.0", False),
        ("https://10.1.2.3", "10.0.0.0/99", False),
        ("https://ten.test", "10.0.0.0/8", False),
        # addresses
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3", "10.1.2.3:443", True),
        ("http://10.1.2.3", "10.1.2.3:80", True),
        ("https://10.1.2.30", "10.1.2.3", False),
        ("https://[fd00::1]:6443", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://10.1.2.3", ".2.3", False),
        # domains
        ("https://api.test", "api.test", True),
        ("https://API.Test", "api.TEST", True),
        ("https://a.api.test", "api.test", True),
        ("https://notapi.test", "api.test", False),
        ("https://api.test", ".api.test", False),
        ("https://a.api.test", ".api.test", True),
        ("https://api.test", "*.api.test", False),
        ("https://a.b.api.test", "*.api.test", True),
        ("https://api.test:6443", "api.test:6443", True),
        ("https://a.api.test:6443", ".api.test:6443", True),
        ("https://api.test:6443", "api.test:443", False),
        ("https://api.test", "api.test:443", True),
        ("https://api.test", "*api.test", False),
        ("https://api.test", ":443", False),
        ("https://api.test", "one.test, api.test ,two.test", True),
        # this machine
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://127.9.9.9:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://localhost.test", "", False),
    ],
)
def test_who_is_reached_directly(server: str, no_proxy: str, direct: bool) -> None:
    environment = {"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert proxy_of(server, environment) == ("" if direct else PROXY)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://a.test"}, "http://a.test"),
        ({"https_proxy": "http://a.test"}, "http://a.test"),
        ({"HTTPS_PROXY": "http://a.test", "https_proxy": "http://b.test"}, "http://a.test"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://b.test"}, "http://b.test"),
        ({"HTTP_PROXY": "http://a.test", "ALL_PROXY": "http://b.test"}, ""),
        ({"HTTPS_PROXY": "a.test:3128"}, "http://a.test:3128"),
        ({"HTTPS_PROXY": "http://a.test", "no_proxy": "api.test"}, ""),
        ({"HTTPS_PROXY": "http://a.test", "NO_PROXY": "x.test", "no_proxy": "api.test"}, "http://a.test"),
    ],
)
def test_which_variable_counts(environment: dict[str, str], proxy: str) -> None:
    assert proxy_of("https://api.test", environment) == proxy
