"""The real command on files that are broken, hostile or enormous: a sentence and exit code 2, in bounded memory.

Every case runs in a process of its own with 1.5 GiB of address space, so that a bomb which goes off is seen.
"""

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

from muster.api.codec import to_yaml
from tests.support.factories import Raw, group, podgroup

VERBS = ("validate", "convert", "tree")
MEMORY = 3 * 2**29  # bytes
FULL = Path(os.devnull).with_name("full")
HEAD = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: gang, namespace: team}\n"
JSON_HEAD = '"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "gang"}'


class Ran(Struct, frozen=True):
    """What a command did."""

    code: int
    out: str
    err: str


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def without_stdin() -> None:
    bounded()
    os.close(0)


def muster(*args: str, stdin: bytes | None = b"", prepare: Callable[[], None] = bounded) -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli.main", *args],
        input=stdin,
        capture_output=True,
        preexec_fn=prepare,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def assert_refused(ran: Ran) -> None:
    """Exit code 2, one error in plain words, and nothing that a program would take for data."""
    assert ran.err.startswith("error: "), ran.err[:500]
    assert "Traceback" not in ran.err
    assert ran.code == 2
    assert ran.out == ""


# files --------------------------------------------------------------------------------------------------------------


def nested_anchors(levels: int, first: str, each: str) -> str:
    """Anchors a0, a1, …, each made of the one before."""
    lines = [f"a0: &a0 {first}", *(f"a{i}: &a{i} {each.replace('*', f'*a{i - 1}')}" for i in range(1, levels))]
    return "apiVersion: v1\nkind: Anchors\n" + "\n".join(lines) + "\n"


TEXTS: dict[str, str] = {
    "nothing.yaml": "",
    "comments.yaml": "# one\n---\n# two\n",
    "blank.json": " \n\n",
    "bomb.yaml": nested_anchors(10, f"[{', '.join('x' * 10)}]", f"[{', '.join('*' * 10)}]"),
    "merge-bomb.yaml": nested_anchors(10, "{k: v}", f"{{<<: [{', '.join('*' * 10)}], k: v}}"),
    "itself.yaml": f"{HEAD}spec: &spec\n  inner: *spec\n",
    "unknown-anchor.yaml": f"{HEAD}spec: *nothing\n",
    "twice.yaml": f"{HEAD}spec: {{}}\nspec: {{minMember: 2}}\n",
    "twice.json": f'{{{JSON_HEAD}, "kind": "PodGroup"}}',
    "twice-inside.json": f'{{{JSON_HEAD}, "spec": {{"subGroups": [{{"name": "a", "name": "b"}}]}}}}',
    "deep.json": "[" * 100_000,
    "deep-objects.json": '{"a": ' * 100_000 + "1" + "}" * 100_000,
    "deep-flow.yaml": f"{HEAD}spec: {'[' * 100_000}",
    "deep-block.yaml": f"{HEAD}spec:\n  {'- ' * 100_000}a\n",
    "deep-anchors.yaml": nested_anchors(40, "[" * 150 + "]" * 150, "[" * 150 + "*" + "]" * 150),
    "digits.yaml": f"{HEAD}spec: {{minMember: {'9' * 5000}}}\n",
    "digits.json": f'{{{JSON_HEAD}, "spec": {{"minMember": {"9" * 5000}}}}}',
    "hex-digits.yaml": HEAD.replace("gang", "0x" + "f" * 5000),
    "hex-document.yaml": f"0x{'f' * 5000}\n",
    "nan.json": f'{{{JSON_HEAD}, "spec": {{"minMember": NaN}}}}',
    "infinity.json": f'{{{JSON_HEAD}, "spec": {{"minMember": -Infinity}}}}',
    "half-a-pair.json": f'{{{JSON_HEAD}, "spec": {{"queue": "\\ud800"}}}}',
    "half-a-pair-in-a-key.json": f'{{{JSON_HEAD}, "spec": {{"\\udfff": 1}}}}',
    "unknown-tag.yaml": f"{HEAD}spec: !mine {{minMember: 1}}\n",
    "unknown-scalar-tag.yaml": f"{HEAD}spec: {{minMember: !mine 1}}\n",
    "python-tag.yaml": '!!python/object/apply:os.system ["exit 7"]\n',
    "list.yaml": f"- {json.dumps(podgroup(minMember=1))}\n",
    "list.json": "[1, 2]",
    "word.yaml": "hello\n",
    "no-kind.yaml": "metadata: {name: gang}\n",
    "no-version.yaml": "kind: PodGroup\n",
    "kind-of-a-number.yaml": "apiVersion: v1\nkind: 7\n",
    "empty-list.yaml": "apiVersion: v1\nkind: List\nitems: []\n",
    "list-of-numbers.yaml": "apiVersion: v1\nkind: List\nitems: [1]\n",
    "items-of-a-number.yaml": "apiVersion: v1\nkind: List\nitems: 1\n",
    "half.json": '{"apiVersion": "v1"',
    "comma.json": '{"a": 1,}',
    "tabs.yaml": "a:\n\tb: c\n",
    "open-quote.yaml": 'a: "b\n',
    "key-missing.yaml": ": a\n",
    "key-of-a-map.yaml": "? {a: b}\n: c\n",
}
BYTES: dict[str, bytes] = {
    "picture.yaml": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)),
    "random.yaml": random.Random(0).randbytes(4096),
    "utf-16.yaml": HEAD.encode("utf-16"),
    "utf-16-without-mark.yaml": HEAD.encode("utf-16-le"),
    "latin-1.yaml": "a: é\n".encode("latin-1"),
    "nul.yaml": b"a: \x00\n",
    "bell.yaml": b"a: \x07\n",
    "only-a-mark.yaml": b"\xef\xbb\xbf",
    "larger-than-allowed.yaml": HEAD.encode() + b"# 50 MB\n" * (50 * 10**6 // 8),
}
FILES = {name: text.encode() for name, text in TEXTS.items()} | BYTES


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(verb: str, name: str, tmp_path: Path) -> None:
    """The sentence begins with the file, so that it can be found among many."""
    path = tmp_path / name
    path.write_bytes(FILES[name])
    ran = muster(verb, str(path))
    assert_refused(ran)
    assert ran.err.startswith(f"error: {path}")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["nothing.yaml", "bomb.yaml", "deep.json", "twice.json", "list.yaml", "picture.yaml"])
def test_standard_input_is_no_different(verb: str, name: str) -> None:
    """A pipe gets the same answers as a file."""
    ran = muster(verb, "-", stdin=FILES[name])
    assert_refused(ran)
    assert ran.err.startswith("error: standard input")


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_standard_input_is_refused(verb: str) -> None:
    """Daemons start programs without one."""
    assert_refused(muster(verb, "-", stdin=None, prepare=without_stdin))


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_file_or_an_empty_folder_is_reported(verb: str, tmp_path: Path) -> None:
    """A missing file, a folder without manifests, and a folder with the name of a file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "README.md").write_text("nothing here")
    (tmp_path / "looks-like-a-file.yaml").mkdir()
    for name in ("missing.yaml", "folder", "looks-like-a-file.yaml"):
        ran = muster(verb, str(tmp_path / name))
        assert_refused(ran)
        assert name in ran.err


@pytest.mark.parametrize("verb", VERBS)
def test_one_bad_file_in_a_folder_is_named(verb: str, tmp_path: Path) -> None:
    """Two hundred files, and one of them is broken: which?"""
    (tmp_path / "below").mkdir()
    (tmp_path / "a.yaml").write_text(to_yaml([podgroup(minMember=1)]))
    (tmp_path / "below" / "b.yaml").write_text("a: [")
    ran = muster(verb, str(tmp_path))
    assert_refused(ran)
    assert "below/b.yaml" in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("verb", VERBS)
def test_a_file_without_read_permission_is_reported(verb: str, tmp_path: Path) -> None:
    """The message names the file and the reason."""
    path = tmp_path / "secret.yaml"
    path.write_text(HEAD)
    path.chmod(0)
    assert_refused(muster(verb, str(path)))


# types --------------------------------------------------------------------------------------------------------------

WRONG = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": ["gang"], "labels": [], "creationTimestamp": "yesterday"},
    "spec": {"minMember": "two", "queue": 7, "markUnschedulable": "no", "subGroups": [1, {"name": {}}, None]},
    "status": "fine",
}
WRONG_AT = (
    *("metadata.name", "metadata.labels", "metadata.creationTimestamp", "spec.minMember", "spec.queue"),
    *("spec.markUnschedulable", "spec.subGroups[0]", "spec.subGroups[1].name", "spec.subGroups[2]", "status"),
)


@pytest.mark.parametrize("verb", VERBS)
def test_all_wrong_types_are_reported_at_once(verb: str, tmp_path: Path) -> None:
    """Ten mistakes, ten lines, one run; `validate` prints them as data, the others as an error."""
    path = tmp_path / "wrong.yaml"
    path.write_text(to_yaml([WRONG]))
    ran = muster(verb, str(path))
    assert ran.code == 2
    assert "Traceback" not in ran.err
    output = ran.out if verb == "validate" else ran.err
    assert [at for at in WRONG_AT if f"  {at}: " not in output] == []
    if verb != "validate":
        assert_refused(ran)


@pytest.mark.parametrize("verb", VERBS)
def test_a_part_of_the_wrong_type_is_named_in_every_document(verb: str, tmp_path: Path) -> None:
    """The smallest of such objects, many in one file: none hides another."""
    wrong: tuple[object, ...] = ([], 1, "text", True, [[]])
    cases = [(part, value) for part in ("metadata", "spec", "status") for value in wrong]
    path = tmp_path / "wrong.yaml"
    path.write_text(
        to_yaml([podgroup(minMember=1, name=f"g{i}") | {part: value} for i, (part, value) in enumerate(cases)])
    )
    ran = muster(verb, str(path))
    output = ran.out if verb == "validate" else ran.err
    assert ran.code == 2
    assert [output.count(f"  {part}: expected an object") for part in ("metadata", "spec", "status")] == [5, 5, 5]


ALMOST_NUMBERS = ("0x_", "0b_", "0o_", "1e999", "-.inf", ".nan", "0o8", "2026-01-01", "1:30", "1.5", "+")


@pytest.mark.parametrize("verb", VERBS)
def test_a_word_that_is_almost_a_number_is_reported_as_a_wrong_type(verb: str, tmp_path: Path) -> None:
    """Whatever YAML makes of it, it is not a whole number."""
    path = tmp_path / "almost.yaml"
    path.write_text("---\n".join(f"{HEAD}spec: {{minMember: {word} }}\n" for word in ALMOST_NUMBERS))
    ran = muster(verb, str(path))
    output = ran.out if verb == "validate" else ran.err
    assert ran.code == 2
    assert output.count("  spec.minMember: expected a whole number") == len(ALMOST_NUMBERS), output[:500]


# memory and time ----------------------------------------------------------------------------------------------------


def test_a_long_text_cannot_be_multiplied_by_anchors(tmp_path: Path) -> None:
    """100 kB that are said 20,000 times are 2 GB on the way out."""
    path = tmp_path / "long.yaml"
    path.write_text(f"apiVersion: v1\nkind: Long\na: &a {'x' * 100_000}\nb:\n" + "- *a\n" * 20_000)
    assert_refused(muster("convert", str(path)))


def flat(number: int) -> Raw:
    return podgroup(*(group(f"worker-{i}", 2) for i in range(number)), minSubGroup=number // 2)


def chain(number: int) -> Raw:
    links = [group(f"link-{i}", parent=f"link-{i - 1}" if i else "") for i in range(number - 1)]
    return podgroup(*links, group(f"link-{number - 1}", 2, parent=f"link-{number - 2}"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """10,000 SubGroups side by side, and 10,000 one below the other."""
    folder = tmp_path_factory.mktemp("large")
    paths = {"flat": folder / "flat.yaml", "chain": folder / "chain.yaml"}
    paths["flat"].write_text(to_yaml([flat(10_000)]))
    paths["chain"].write_text(to_yaml([chain(10_000)]))
    return paths


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("extreme", ["flat", "chain"])
def test_ten_thousand_subgroups_are_no_trouble(verb: str, extreme: str, large: dict[str, Path]) -> None:
    """The largest PodGroup that the CRD admits, flat and as a chain."""
    ran = muster(verb, str(large[extreme]))
    assert ran.code == 0, ran.err[:500]
    assert "Traceback" not in ran.err
    expected = {"validate": "is valid", "convert": "kind: PodGroup", "tree": "team/gang"}[verb]
    assert expected in ran.out


@pytest.mark.parametrize("extreme", ["flat", "chain"])
def test_a_large_gang_that_was_converted_is_the_same(extreme: str, large: dict[str, Path]) -> None:
    """What is in the form of record passes unchanged, to the byte."""
    ran = muster("convert", str(large[extreme]))
    assert ran.out == large[extreme].read_text()
    assert ran.err == ""


def test_a_chain_too_deep_for_json_is_refused_with_a_way_out(large: dict[str, Path]) -> None:
    """Nested JSON of 10,000 levels would break its readers."""
    ran = muster("tree", "-o", "json", str(large["chain"]))
    assert_refused(ran)
    assert "-o table" in ran.err


# output -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["convert", "tree"])
def test_a_reader_that_leaves_early_is_no_error(verb: str, large: dict[str, Path]) -> None:
    """`muster tree … | head -1` prints one line and says nothing else."""
    command = [sys.executable, "-m", "muster.cli.main", verb, str(large["flat"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=bounded) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("verb", VERBS)
def test_output_that_cannot_be_written_is_an_error_in_plain_words(verb: str, tmp_path: Path) -> None:
    """A full disk is not a fault of muster, and must not pass for success."""
    path = tmp_path / "good.yaml"
    path.write_text(to_yaml([podgroup(minMember=1)]))
    with FULL.open("wb") as full:
        command = [sys.executable, "-m", "muster.cli.main", verb, str(path)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"internal error" not in done.stderr


def test_nothing_is_printed_where_there_is_nothing_to_show(tmp_path: Path) -> None:
    """An empty line is not data."""
    path = tmp_path / "unknown.yaml"
    path.write_text("apiVersion: v1\nkind: Service\n")
    for verb in ("validate", "tree"):
        ran = muster(verb, str(path))
        assert (ran.code, ran.out) == (0, "")
