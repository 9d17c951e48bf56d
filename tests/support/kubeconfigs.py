"""Kubeconfig files and exec plugins for tests."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import yaml

V1 = "client.authentication.k8s.io/v1"


def write_kubeconfig(path: Path, user: dict[str, Any], name: str = "main", **cluster: Any) -> str:
    """One context, cluster and user of the same name."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": "https://api.test:6443", **cluster}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def write_plugin(path: Path, status: dict[str, Any] | None, stderr: str = "") -> dict[str, Any]:
    """A user with an exec plugin that prints this credential; without one it fails after a line on stderr."""
    return write_script(path, None if status is None else credential(status), stderr)


def credential(status: Any, version: str = V1) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def write_script(path: Path, output: Any, stderr: str = "", **fields: Any) -> dict[str, Any]:
    """A user with an exec plugin that prints this, and leaves its environment and arguments in a file beside it."""
    printed = output if isinstance(output, str) else json.dumps(output)
    end = f"print({printed!r})" if output is not None else "sys.exit(3)"
    seen = f"json.dump([dict(os.environ), sys.argv[1:]], open({f'{path}.seen'!r}, 'w'))"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\nsys.stderr.write({stderr!r})\n{seen}\n{end}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": V1, "command": str(path), "interactiveMode": "Never", **fields}}


def read_run(path: Path) -> tuple[dict[str, str], list[str]]:
    """The environment and the arguments that a plugin was run with."""
    environment, arguments = json.loads(Path(f"{path}.seen").read_text())
    return environment, arguments
