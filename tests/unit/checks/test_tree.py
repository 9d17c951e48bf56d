"""What `make check` asks of the tree, on small made-up trees; and that this tree's rules are defined and tested."""

from pathlib import Path
from textwrap import dedent

import pytest
from checks import tree
from checks.tree import RULES, Tree, main, split

RULE = "- **N1** The tree. Tests: [`test_n1`](../../tests/spec/test_n.py).\n"
TEST = '''def test_n1() -> None:\n    """N1: a promise."""\n'''


@pytest.fixture
def made(tmp_path: Path) -> "Made":
    return Made(tmp_path)


class Made:
    """A made-up repository."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str = "") -> "Made":
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return self

    def with_rules(self, *lines: str) -> "Made":
        return self.write(RULES, "".join(lines or (RULE,))).write("tests/spec/test_n.py", TEST)

    def findings(self, check: str) -> list[str]:
        return [str(finding) for finding in tree.CHECKS[check](Tree(self.root))]


def test_the_rules_of_this_tree_are_defined_and_tested() -> None:
    """An id that is cited and not defined, a rule without a test, and a link that leads nowhere are found here."""
    assert [str(finding) for finding in tree.rules(Tree(Path(__file__).parents[3]))] == []


# classes, folders, sizes ----------------------------------------------------------------------------------------------


def test_a_class_name_that_exists_twice_is_found_at_the_second_place(made: Made) -> None:
    made.write("src/muster/a.py", "class Host: ...\n").write("src/muster/b/c.py", "\nclass Host: ...\n")
    (finding,) = made.findings("classes")
    assert finding.startswith("src/muster/b/c.py:2: class `Host` exists already in src/muster/a.py:1")


def test_tests_and_benchmarks_may_name_their_classes_as_they_like(made: Made) -> None:
    made.write("src/muster/a.py", "class Host: ...\n").write("tests/a.py", "class Host: ...\n")
    assert made.findings("classes") == []


@pytest.mark.parametrize(("folder", "modules", "number"), [("model", 16, 0), ("model", 17, 1), ("cli", 17, 0)])
def test_a_folder_of_too_many_modules_is_found_but_the_cli(made: Made, folder: str, modules: int, number: int) -> None:
    made.write(f"src/muster/{folder}/__init__.py")
    for i in range(modules):
        made.write(f"src/muster/{folder}/m{i}.py")
    assert len(made.findings("folders")) == number


@pytest.mark.parametrize(
    ("path", "head", "number"),
    [
        ("src/muster/a.py", '"""A module."""', 1),
        ("src/muster/a.py", '"""A module.\n\nLong because: one state machine.\n"""', 0),
        ("src/muster/a.py", '"""A module.\n\nLong because:\n"""', 1),
        ("tests/oracles/a.py", "", 1),
        ("tests/spec/test_a.py", "", 0),
    ],
)
def test_a_long_module_says_why_in_its_docstring(made: Made, path: str, head: str, number: int) -> None:
    made.write(path, head + "\nx = 1" * 401)
    assert len(made.findings("sizes")) == number


# rules ----------------------------------------------------------------------------------------------------------------


def test_a_rule_that_is_defined_and_tested_is_no_finding(made: Made) -> None:
    made.with_rules().write("src/muster/a.py", '"""N1."""\n')
    assert made.findings("rules") == []


@pytest.mark.parametrize(
    "text", ['"""As N2 says."""\n', "x = 1  # N2\n", 'x = f"{1} (N2)"\n', '"""N1-N2."""\n', '"""\n\nN2\n"""\n']
)
def test_a_rule_that_is_cited_and_not_defined_is_found(made: Made, text: str) -> None:
    made.with_rules().write("src/muster/a.py", text)
    (finding,) = made.findings("rules")
    line = 3 if "\n\n" in text else 1
    assert finding == f"src/muster/a.py:{line}: rule `N2` is not defined; define it in {RULES}"


def test_a_rule_that_a_page_cites_is_defined_too(made: Made) -> None:
    made.with_rules().write("docs/guide.md", "one\n\nsee N3\n")
    assert made.findings("rules") == [f"docs/guide.md:3: rule `N3` is not defined; define it in {RULES}"]


@pytest.mark.parametrize(
    "text",
    [
        "A1 of a sheet",
        "a V100, a T4-small, tesla-T4 and an H100",
        "decision 0008",
        "N818 of ruff",
        "X86",
        "e2e",
        "T0",
        "2026-01-01T12:00:00Z",
    ],
)
def test_other_numbers_are_no_rules(made: Made, text: str) -> None:
    made.with_rules().write("src/muster/a.py", f'"""{text}"""\nN7 = 1\n')
    assert made.findings("rules") == []


def test_a_rule_without_a_test_is_found(made: Made) -> None:
    made.with_rules("- **N1** The tree.\n")
    assert made.findings("rules") == [f"{RULES}:1: rule `N1` names no test; link one as [`test_name`](path)"]


def test_a_test_that_does_not_exist_is_found(made: Made) -> None:
    made.with_rules(RULE.replace("test_n1", "test_gone"))
    (finding,) = made.findings("rules")
    assert "there is no test `test_gone`" in finding


def test_a_test_that_does_not_cite_its_rule_is_found(made: Made) -> None:
    made.with_rules().write("tests/spec/test_n.py", "def test_n1() -> None: ...\n")
    assert made.findings("rules") == ["tests/spec/test_n.py:1: `test_n1` is a test of rule `N1` and does not cite it"]


def test_a_link_that_leads_nowhere_is_found(made: Made) -> None:
    made.with_rules(RULE, "\n[Glossary](../glossary.md) and [the web](https://example.com)\n")
    assert made.findings("rules") == [f"{RULES}:3: link `../glossary.md` leads nowhere"]


# words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "told = 1",
        "def f(told): ...",
        "def told(): ...",
        "def who_was_told(): ...",
        "class ToldNodes: ...",
        "self.told = 1",
        "class A:\n    told: int",
        "for told in (): ...",
        "x = [told for told in ()]",
        "import os as told",
        "match 1:\n    case told: ...",
        "try: ...\nexcept OSError as told: ...",
        "def test_a_gang_is_told(): ...",
    ],
)
def test_a_word_of_a_person_is_found_wherever_it_is_bound(made: Made, text: str) -> None:
    (finding,) = made.write("src/muster/a.py", text + "\n").findings("words")
    assert "`told`" in finding
    assert finding.endswith(": say which process or object it is")


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nrows = np.zeros(3).shape",  # an attribute of another library
        'raw = {"room": 1}\nraw["room"] = 2',  # a key on the wire
        "class Place(Wire):\n    room: int",  # a field of a wire type
        "def test_a_core_leaves_room_for_extras(): ...",  # a sentence
        "where_it_was_found = 1",  # not the whole name
        "showroom = foundation = 1",  # another word
        "class NoRoom: ...",  # a reason
        "SERVICE_ACCOUNTS = 1",  # a kind
        "pending_writes = 1",
    ],
)
def test_what_is_not_named_here_or_says_what_it_is_is_no_finding(made: Made, text: str) -> None:
    assert made.write("src/muster/a.py", text + "\n").findings("words") == []


def test_a_finding_names_file_line_word_and_the_word_to_use(made: Made) -> None:
    made.write("src/muster/b.py", "x = 1\nfree_room = 2\n").write("bench/mirror.py")
    assert made.findings("words") == [
        "src/muster/b.py:2: `room` in `free_room`: say allocatable, free capacity",
        "bench/mirror.py:1: `mirror`: say cache",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("GangState", ["gang", "state"]),
        ("_pod_class", ["pod", "class"]),
        ("HTTPServer", ["http", "server"]),
        ("MOST_LINES", ["most", "lines"]),
        ("r2", ["r"]),
    ],
)
def test_names_are_split_into_words(name: str, words: list[str]) -> None:
    assert split(name) == words


# the command ----------------------------------------------------------------------------------------------------------


def test_the_exit_code_says_whether_there_is_anything_to_mend(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    made.with_rules().write("src/muster/a.py", "told = 1\n")
    assert main(["rules", "--root", str(made.root)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["--root", str(made.root)]) == 1
    assert capsys.readouterr().out == "src/muster/a.py:1: `told`: say which process or object it is\n"


def test_a_summary_counts_by_check_and_folder(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    made.with_rules().write("src/muster/kube/a.py", "told = 1\nfound = 2\n").write("bench/a.py", "found = 2\n")
    assert main(["--summary", "--root", str(made.root)]) == 1
    assert capsys.readouterr().out.splitlines() == ["words        1  bench", "words        2  src/muster/kube"]
