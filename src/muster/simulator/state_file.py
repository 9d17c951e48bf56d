"""A simulation in a file: its scenario, the state that it came to, and what its input files were.

Rule 1: a file is read as data, never as code. Rule 2: a simulation goes on only with the same input and the same
version of muster: otherwise its end would be that of neither.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

import muster
from muster.api.decoding import encode
from muster.errors import InputError
from muster.kube import manifest_files
from muster.simulator.engine.saved_state import SavedSimulation, decode_state, encode_state
from muster.simulator.engine.simulation import Simulation
from muster.simulator.scenario.loading import read_scenario
from muster.simulator.scenario.types import Scenario

MAGIC = b"muster simulation 1\n"
HEADER = len(MAGIC) + 32  # with the digest of all that follows
CHUNK = 2**20


class StateFile(Struct, frozen=True):
    """What a file holds."""

    version: str  # of muster
    scenario: bytes  # as JSON
    folder: str  # where its paths begin
    inputs: dict[str, str]  # by path, the digest of an input file
    state: bytes


class ResumedSimulation(Struct, frozen=True, eq=False):
    """A simulation to go on with."""

    scenario: Scenario
    folder: Path
    state: SavedSimulation


def write_state(
    path: Path, scenario: Scenario, folder: Path, inputs: Mapping[str, str], simulation: Simulation
) -> None:
    """Writes a simulation whole, or not at all; `inputs` are digests of the files as it read them."""
    content = StateFile(
        version=muster.__version__,
        scenario=msgspec.json.encode(encode(scenario)),
        folder=str(folder.resolve()),
        inputs=dict(inputs),
        state=encode_state(simulation.save()),
    )
    data = msgspec.msgpack.encode(content)
    manifest_files.replace(path, MAGIC + hashlib.sha256(data).digest() + data)


def read_state(path: Path) -> ResumedSimulation:
    """Reads a simulation. InputError: it is none, is of another version, or an input file has changed."""
    file = _decode(path)
    if file.version != muster.__version__:
        raise InputError(
            f"{path}: was saved by muster {file.version}, and this is {muster.__version__}",
            hint="go on with that version, or simulate from the start",
        )
    scenario, folder = read_scenario(file.scenario, path), Path(file.folder)
    for name, digest in input_digests(scenario, folder).items():
        if file.inputs.get(name) != digest:
            raise InputError(
                f"{name}: has changed since {path} was saved", hint="restore the file, or simulate from the start"
            )
    return ResumedSimulation(scenario, folder, _decode_state(path, file.state))


def _decode(path: Path) -> StateFile:
    try:
        with path.open("rb") as file:
            digest = file.read(HEADER).removeprefix(MAGIC)
            if len(digest) != HEADER - len(MAGIC):  # whatever it is, its size does not matter
                raise _no_simulation(path)
            content = file.read()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint="`muster simulate SCENARIO --save FILE` writes one") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        if hashlib.sha256(content).digest() != digest:
            raise msgspec.DecodeError
        return msgspec.msgpack.decode(content, type=StateFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _no_simulation(path) from None


def _decode_state(path: Path, data: bytes) -> SavedSimulation:
    try:
        return decode_state(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _no_simulation(path) from None


def _no_simulation(path: Path) -> InputError:
    return InputError(f"{path}: holds no saved simulation", hint="`muster simulate SCENARIO --save FILE` writes one")


def input_digests(scenario: Scenario, folder: Path) -> dict[str, str]:
    """By path, the digest of every file that a scenario reads."""
    return {str(path): _digest(path) for path in _input_files(scenario, folder.resolve())}


def _input_files(scenario: Scenario, folder: Path) -> Iterator[Path]:
    """Every file that a scenario reads."""
    if scenario.cluster.nodes_file.file:
        yield folder / scenario.cluster.nodes_file.file
    for trace in scenario.traces:
        yield folder / trace.file
    if scenario.cluster.snapshot:
        yield from manifest_files.files(folder / scenario.cluster.snapshot)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return digest.hexdigest()
