"""The real kubectl, driven against the embedded API server."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

LONGEST_SECONDS = 60.0
KUBECTL = shutil.which("kubectl")
MISSING = "kubectl is not at hand: install Debian's `kubernetes-client`"


class Refused(Exception):
    """kubectl said no; its words are the message."""


class Kubectl:
    """kubectl with one kubeconfig; objects to send go in as values."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        self._start = ("--kubeconfig", str(kubeconfig), "--cache-dir", str(home / "cache"))
        self._env: Mapping[str, str] = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    async def __call__(self, *words: str, send: Any = None) -> str:
        """What it prints; Refused with its complaint where it fails."""
        async with self.running(*words) as process:
            data = b"" if send is None else _documents(send)
            out, err = await asyncio.wait_for(process.communicate(data), LONGEST_SECONDS)
        if process.returncode:
            raise Refused(err.decode())
        return out.decode()

    async def json(self, *words: str) -> Any:
        """What it prints with `-o json`."""
        return msgspec.json.decode(await self(*words, "-o", "json"))

    async def table(self, *words: str) -> list[list[str]]:
        """What it prints, as cells; two blanks part them."""
        lines = (await self(*words)).splitlines()
        return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]

    @asynccontextmanager
    async def running(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """While it runs; ended when left."""
        assert KUBECTL
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            KUBECTL, *self._start, *words, stdin=pipe, stdout=pipe, stderr=pipe, env=self._env
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


def _documents(send: Any) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": send} if isinstance(send, list) else send)
