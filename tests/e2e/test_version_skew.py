"""Two versions of muster on one cluster, as in a rolling update: they share the lease, annotations and status."""

import subprocess
import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest

from muster.api.resources import LEASES, NODES, POD_GROUPS, PODS
from muster.kube.cluster import Cluster, Raw
from muster.kube.errors import ApiError
from tests.e2e import test_run
from tests.e2e.installed import until
from tests.e2e.test_run import Replica, gpu_node, gpu_pod, replica, seats
from tests.support.apiserver.apiserver import ApiServer
from tests.support.factories import podgroup

ROOT = Path(__file__).parents[2]
COMMITS = 20  # how far back the earlier version is
NO_HISTORY = f"needs {COMMITS} commits of history: a shallow clone has no earlier version to run"
PATIENT = "leaderElection: {leaseSeconds: 60, renewDeadlineSeconds: 40, retrySeconds: 1}\n"  # it ends by SIGTERM alone
cluster = test_run.cluster
__all__ = ["cluster"]


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of an earlier commit."""
    try:
        commit = git("rev-list", "--max-count=1", f"--skip={COMMITS}", "HEAD").decode().strip()
    except (OSError, subprocess.CalledProcessError):
        commit = ""
    if not commit:
        pytest.skip(NO_HISTORY)
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=BytesIO(git("archive", commit, "src"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture
async def home(cluster: Cluster) -> Cluster:
    with suppress(ApiError):
        await cluster.delete(LEASES, "muster-system", "muster", grace_seconds=0)
    await cluster.create(NODES, gpu_node("run-a") | {"status": {"allocatable": {"cpu": "64", "nvidia.com/gpu": "64"}}})
    return cluster


async def placed(cluster: Cluster, name: str) -> Raw:
    """A gang of two, which the leader of the moment binds; its PodGroup once its status says so."""
    raw = podgroup(minMember=2, namespace="run", queue="run")
    await cluster.create(POD_GROUPS, raw | {"metadata": {"name": name, "namespace": "run"}})
    for i in range(2):
        pod = gpu_pod(f"{name}-{i}")
        pod["metadata"]["annotations"] = {"pod-group-name": name}
        await cluster.create(PODS, pod)

    async def runs() -> bool:
        stored = await cluster.get(POD_GROUPS, "run", name)
        return all(await seats(cluster)) and (stored.get("status") or {}).get("phase") == "Running"

    await until(runs)
    return await cluster.get(POD_GROUPS, "run", name)


async def untouched(cluster: Cluster, before: Raw) -> bool:
    """Whether the other version left a gang alone: same content, annotations and status."""
    after = await cluster.get(POD_GROUPS, "run", before["metadata"]["name"])
    return all(before[part] == after[part] for part in ("spec", "status")) and (
        before["metadata"].get("annotations") == after["metadata"].get("annotations")
    )


async def hand_over(leader: Replica, other: Replica) -> None:
    assert (await leader.leads(), await other.leads()) == (True, False)
    logged = leader.stopped()
    assert leader.process.returncode == 0, logged[-2000:]
    assert "Traceback" not in logged
    await until(other.leads)


async def test_versions_hand_over_in_both_directions_without_a_quarrel(
    apiserver: ApiServer, home: Cluster, earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade, then a downgrade: each leads in its turn, and changes nothing of what the other wrote."""

    def an_earlier() -> None:
        monkeypatch.setenv("PYTHONPATH", str(earlier))

    def this() -> None:
        monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))

    an_earlier()
    with replica(apiserver, tmp_path, PATIENT) as old:
        await until(old.leads)
        assert f"PYTHONPATH={earlier}" in Path(f"/proc/{old.process.pid}/environ").read_text()
        first = await placed(home, "first")
        this()
        with replica(apiserver, tmp_path, PATIENT) as new:
            await until(new.ready)
            await hand_over(old, new)
            second = await placed(home, "second")
            an_earlier()
            with replica(apiserver, tmp_path, PATIENT) as old_again:
                await until(old_again.ready)
                await hand_over(new, old_again)
                third = await placed(home, "third")
                assert [await untouched(home, raw) for raw in (first, second, third)] == [True] * 3
                old_again.stopped()
    lease = (await home.get(LEASES, "muster-system", "muster"))["spec"]
    assert (lease.get("holderIdentity", ""), lease["leaseTransitions"]) == ("", 2)
