"""Runs with faults on a real API server, recorded and judged offline (I1-I9, I11; `tests.oracles.history`).

Each seed is one run of two `muster run` processes while they are paused, killed and cut off, servers restart, requests
are refused, lost and delayed, clocks jump, and nodes and pods go. A handful of seeds by default; nightly a thousand.
`python -m tests.support.history.fault_run SEED` shows one of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracles.history.check import broken
from tests.support.apiserver import envtest
from tests.support.apiserver.apiserver import ApiServer, started
from tests.support.history.etcd_recorder import FLAGS
from tests.support.history.fault_run import recorded_run
from tests.support.history.nemeses import NEMESES, schedule

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
FEW = (0,)
SEEDS = range(1000) if NIGHTLY else FEW


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """One of its own: it is killed and restarted, and stores objects as JSON for the recorder."""
    programs = envtest.find_programs()
    if programs is None:
        pytest.skip(envtest.HOW_TO_GET_THEM)
    server = started(programs, flags=FLAGS)
    yield server
    server.stop()
    server.clean(keep_logs=request.session.testsfailed > 0)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_run_with_faults_keeps_every_promise(server: ApiServer, seed: int, tmp_path: Path) -> None:
    """The history stays beside the logs of the replicas where a promise is broken."""
    history = await recorded_run(server, seed, tmp_path)
    history.save(tmp_path / "history.jsonl")
    assert broken(history) == [], f"{[name for _, name in schedule(seed)]}: {tmp_path}"
    bound = {write.body["metadata"]["uid"] for write in history.writes if write.subresource == "binding"}
    assert len(bound) > 3, "too little happened to prove anything"


def test_every_nemesis_has_its_seeds() -> None:
    """As many of each as of the others begin a run, and a handful of seeds has most of them."""
    first = [sum(name in dict.fromkeys(name for _, name in schedule(seed)) for seed in range(26)) for name in NEMESES]
    assert min(first) >= 2
