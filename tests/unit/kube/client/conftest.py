"""What tests of the client share."""

from pathlib import Path

import pytest

from tests.support.apiserver.envtest_certificates import certificates

VARIABLES = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "NO_PROXY")


@pytest.fixture
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of the machine that runs the tests."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    """A folder with a CA, and certificates that it signed."""
    folder = tmp_path / "tls"
    folder.mkdir()
    certificates(folder)
    return folder
