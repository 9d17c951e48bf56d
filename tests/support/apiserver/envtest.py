"""A real `kube-apiserver`, `etcd` and `kube-controller-manager`: found, or built once from Go modules into a cache.

Looked for in KUBEBUILDER_ASSETS (the convention of envtest), then in the cache of the user, then on PATH. The
controller manager is optional, and is the one beside the API server, so that their versions agree. MUSTER_KUBERNETES
asks for another version (`v1.30.14`), which is built into a folder of its own and not looked for on PATH. Tests only
look: `find_programs`. `make envtest` builds what is missing: `python -m tests.support.apiserver.envtest`, with
`--if-possible` where a machine without Go may pass.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

KUBERNETES = "v1.36.3"
ANOTHER_VERSION = "MUSTER_KUBERNETES"
ETCD = "v3.6.16"  # the API server wants 3.5.13 or later for consistent reads from its cache
ETCD_SERVER, API_SERVER, CONTROLLER_MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"
SERVERS = (ETCD_SERVER, API_SERVER)
PROGRAMS = (*SERVERS, CONTROLLER_MANAGER)
LOOK_SECONDS, BUILD_SECONDS = 120, 2400
HOW_TO_GET_THEM = (
    "no kube-apiserver and etcd here: `make envtest` builds them where Go 1.26 is at hand; "
    "or set KUBEBUILDER_ASSETS to a folder that holds them"
)
HOW_TO_GET_CONTROLLERS = (
    "no kube-controller-manager beside kube-apiserver: `make envtest` builds it where Go 1.26 is at hand; "
    "or put it into the folder of KUBEBUILDER_ASSETS"
)

# etcd's own main is in a module that cannot be fetched; this is all it does.
ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


class Missing(Exception):
    """They are not at hand and cannot be built here: why, and the way out."""


def find_programs(environment: Mapping[str, str] = os.environ) -> dict[str, Path] | None:
    """Where each is; None where one of the servers is missing."""
    places = [environment["KUBEBUILDER_ASSETS"]] if environment.get("KUBEBUILDER_ASSETS") else _places(environment)
    paths = {name: shutil.which(name, path=os.pathsep.join(places)) for name in SERVERS}
    programs = {name: Path(path) for name, path in paths.items() if path}
    if len(programs) < len(SERVERS):
        return None
    controllers = shutil.which(CONTROLLER_MANAGER, path=str(programs[API_SERVER].parent))
    return {**programs, CONTROLLER_MANAGER: Path(controllers)} if controllers else programs


def _places(environment: Mapping[str, str]) -> list[str]:
    on_path = "" if environment.get(ANOTHER_VERSION) else environment.get("PATH", "")
    return [str(cache(environment)), on_path]


def version(environment: Mapping[str, str] = os.environ) -> str:
    """Of Kubernetes: the one the tests are made for, or the one that MUSTER_KUBERNETES asks for."""
    chosen = environment.get(ANOTHER_VERSION) or KUBERNETES
    if not re.fullmatch(r"v1\.\d+\.\d+", chosen):
        raise Missing(f"{ANOTHER_VERSION} is `{chosen}`; a version looks like `{KUBERNETES}`")
    return chosen


def cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Where what was built is kept, by version."""
    home = environment.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "muster" / "envtest" / f"kubernetes-{version(environment)}-etcd-{ETCD}"


def provide() -> dict[str, Path]:
    """Where each is, built where it must be; parallel calls build once. Missing: why not, and how to get them."""
    programs = find_programs()
    if programs and not _is_incomplete(programs):
        return programs
    if not programs and (folder := os.environ.get("KUBEBUILDER_ASSETS")):
        raise Missing(f"KUBEBUILDER_ASSETS is `{folder}`, which does not hold {' and '.join(SERVERS)}")
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise Missing(HOW_TO_GET_CONTROLLERS if programs else HOW_TO_GET_THEM)
    with _alone(cache()):
        return _built(go, cache())


def _is_incomplete(programs: Mapping[str, Path]) -> bool:
    """Whether they were built here before the controller manager was; programs of others are taken as they are."""
    return CONTROLLER_MANAGER not in programs and programs[API_SERVER].parent == cache()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _built(go: str, folder: Path) -> dict[str, Path]:
    if missing := [name for name in PROGRAMS if not (folder / name).exists()]:
        _build_all(go, folder, missing)
    return {name: folder / name for name in PROGRAMS}


def _build_all(go: str, folder: Path, names: list[str]) -> None:
    published = _go_mod(go)  # first: where modules cannot be had, this shows at once
    cost = "about ten minutes and 4 GB" if API_SERVER in names else "a few minutes"
    _say(f"building {', '.join(names)} (Kubernetes {version()}, etcd {ETCD}) into {folder}: once, {cost}")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as made:
        for name in names:
            files, package = _source(name, published)
            _build(go, Path(made), name, files, package)
            (Path(made) / name).replace(folder / name)


def _source(name: str, published: str) -> tuple[dict[str, str], str]:
    """The files of a module that builds a program, and the package to build."""
    if name == ETCD_SERVER:
        return {"go.mod": etcd_module(), "main.go": ETCD_MAIN}, "."
    return {"go.mod": kubernetes_module(published)}, f"k8s.io/kubernetes/cmd/{name}"


def etcd_module() -> str:
    """A module that needs etcd's server and nothing else."""
    return f"module muster.test/etcd\n\ngo 1.26.0\n\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n"


def kubernetes_module(published: str) -> str:
    """A module that needs Kubernetes, whose own go.mod points into its repository: outside, those are v0.x modules."""
    staged = re.findall(r"^\s*(\S+) => \./staging/", published, re.MULTILINE)
    library = version().replace("v1.", "v0.", 1)
    replaced = "".join(f"\t{name} => {name} {library}\n" for name in staged)
    needs = f"require k8s.io/kubernetes {version()}\n\nreplace (\n{replaced})\n"
    return f"module muster.test/apiserver\n\ngo 1.26.0\n\n{needs}"


def _go_mod(go: str) -> str:
    with tempfile.TemporaryDirectory() as outside:  # of any module
        command = [go, "list", "-m", "-f", "{{.GoMod}}", f"k8s.io/kubernetes@{version()}"]
        path = _run(command, Path(outside), LOOK_SECONDS).strip()
    return Path(path).read_text()


def _build(go: str, made: Path, name: str, files: Mapping[str, str], package: str) -> None:
    module = made / f"{name}.module"
    module.mkdir()
    for file, text in files.items():
        (module / file).write_text(text)
    stamps = {"gitVersion": version(), "gitMajor": "1", "gitMinor": version().split(".")[1]}
    stamped = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())
    flags = ["-mod=mod", "-trimpath", "-ldflags", f"-s -w {stamped}"]
    _run([go, "build", *flags, "-o", str(made / name), package], module, BUILD_SECONDS)


def _run(command: list[str], folder: Path, seconds: float) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off"}
    try:
        done = subprocess.run(
            ["nice", *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"`go {command[1]}` takes longer than {seconds:g} s; {HOW_TO_GET_THEM}") from None
    if done.returncode:
        last_lines = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise Missing(f"`go {command[1]}` failed: {last_lines}; or set KUBEBUILDER_ASSETS to a folder that holds them")
    return done.stdout


def _say(text: str) -> None:
    sys.stderr.write(f"envtest: {text}\n")


def main(arguments: list[str]) -> int:
    """Print where they are; one line on stderr where they are not."""
    try:
        sys.stdout.write("".join(f"{path}\n" for path in provide().values()))
    except Missing as why:
        _say(str(why))
        return 0 if "--if-possible" in arguments else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
