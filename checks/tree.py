"""What `make check` asks of the tree beside lint and types: names, sizes, rules and words.

    python -m checks.tree                every finding as `file:line: what, and what to do`; exit code 1: there is one
    python -m checks.tree --summary      how many findings each folder has, by check
    python -m checks.tree classes rules  some checks only

Rule 1: only names that this tree binds are judged; attributes of other libraries (`array.shape`) and JSON keys are not.
Rule 2: an exemption is a rule with a reason, never a list of places.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

MOST_MODULES, MOST_LINES = 16, 400
CODE = ("src", "tests", "bench", "checks", "release")
RULES = "docs/reference/rules.md"
KINDS_OF_RULES = "DEGIMNPQRSTVX"  # of rules; other letters with a number are cells, versions, GPUs

# A rule or a range of rules (`N4`, `I1-I7`). Three digits (`H100`, `N818`), a word around it (`e2e`, `T4-small`) and
# numbers from 20 on (`X86`) are something else.
NUMBER = r"(?:[1-9]|1\d)"
CITATION = re.compile(rf"(?<![\w-])([{KINDS_OF_RULES}])({NUMBER})(?:[-–]\1({NUMBER}))?(?![\w-])")
DEFINITION = re.compile(rf"^- \*\*([{KINDS_OF_RULES}]{NUMBER})\*\* ")
TEST_LINK = re.compile(r"\[`(test_\w+)`\]\(([^)]+)\)")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
LONG_BECAUSE = re.compile(r"^Long because: \S", re.MULTILINE)

# Words of persons are wrong in every name; those of the private vocabulary everywhere but in a test's name, which is a
# sentence: a core may leave *room* there, and a reader may *follow*.
PERSONS = dict.fromkeys(("somebody", "nobody", "whoever", "told", "heard", "anew"), "which process or object it is")
PERSONS |= {"guest": "ASGI server", "crew": "write pool", "teller": "status writer", "desk": "admission handler"}
PRIVATE = {
    "reflector": ("follow", "hear"),
    "cache": ("mirror", "mirrors", "books"),
    "assumed pods": ("inflight",),
    "unconfirmed": ("doubt", "doubts"),
    "status update": ("letters",),
    "backoff": ("patience", "pace"),
    "requested, request": ("asked",),
    "certificate rotation": ("keeping", "door"),
    "eviction cost": ("price", "prices"),
    "candidates": ("crowd",),
    "preemption": ("disturb",),
    "cycle state, cycle": ("board", "turn", "turns"),
    "queue usage": ("accounts",),
    "symmetry": ("looks",),
    "inter-pod rules": ("company", "neighbours", "marks"),
    "pod class": ("shape", "shapes"),
    "terminating": ("leaving",),
    "allocatable, free capacity": ("room",),
}
WORDS = PERSONS | {word: right for right, words in PRIVATE.items() for word in words}
VARIABLES = {"found": "a noun for what it holds"}  # wrong as a whole name: `found_nodes` says what was found
MODULES = {"writes": "binder, evictor", "verdicts": "admission"}  # right elsewhere: a plan has verdicts (X2)
# Terms that others have given: a kind of Kubernetes, and the reason `NoRoom` (E3).
TERMS = (("service", "accounts"), ("no", "room"))


class Finding(NamedTuple):
    """Something to mend."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Name(NamedTuple):
    """A name that a module binds."""

    text: str
    line: int
    is_module: bool = False
    is_test: bool = False  # a test function: its name is a sentence
    is_wire: bool = False  # a field of a wire type: its name is given by the API


class Module:
    """A Python file of the tree."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def syntax(self) -> ast.Module:
        """The module, parsed."""
        return ast.parse(self.text)

    @property
    def is_source(self) -> bool:
        """Whether it is part of the product."""
        return self.path.startswith("src/")

    @property
    def is_test(self) -> bool:
        """Whether it is a module of tests."""
        return Path(self.path).name.startswith("test_")

    def prose(self) -> Iterator[tuple[int, str]]:
        """Comments and strings, with the line that each begins at."""
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT or "STRING" in tokenize.tok_name[token.type]:
                yield token.start[0], token.string

    def names(self) -> Iterator[Name]:
        """Every name that is bound here: modules, classes, functions, parameters, variables, attributes."""
        yield Name(Path(self.path).stem, 1, is_module=True)
        wire = {id(part) for cls in _classes(self.syntax) if _is_wire(cls) for part in cls.body}
        for node in ast.walk(self.syntax):
            for text, line in _bound(node):
                is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and text.startswith("test_")
                yield Name(text, line, is_test=is_test, is_wire=id(node) in wire)
            if isinstance(node, ast.AnnAssign) and id(node) in wire and isinstance(node.target, ast.Name):
                wire.add(id(node.target))


def _classes(syntax: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(syntax) if isinstance(node, ast.ClassDef))


def _is_wire(cls: ast.ClassDef) -> bool:
    """Whether a class is a wire type: its base says so by name."""
    return any(isinstance(base, ast.Name) and base.id in ("Wire", "TypedDict") for base in cls.bases)


def _bound(node: ast.AST) -> Iterator[tuple[str, int]]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, node.lineno
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name, node.lineno
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, node.lineno
        case ast.alias(asname=str(name)):
            yield name, node.lineno
        case _:
            return


class Tree:
    """The files of a repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = (path for folder in CODE for path in sorted((root / folder).rglob("*.py")))
        self.modules = [Module(root, path) for path in files]
        pages = [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
        self.pages = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in pages}

    @property
    def rules(self) -> dict[str, tuple[int, str]]:
        """Every rule that is defined: its line and its text, links included."""
        rules: dict[str, tuple[int, str]] = {}
        current = ""
        for number, line in enumerate(self.pages.get(RULES, "").splitlines(), 1):
            if defined := DEFINITION.match(line):
                current = defined[1]
                rules[current] = number, ""
            elif not line.startswith("  "):
                current = ""
            if current:
                rules[current] = rules[current][0], f"{rules[current][1]}{line}\n"
        return rules


# the checks -----------------------------------------------------------------------------------------------------------


def classes(tree: Tree) -> Iterator[Finding]:
    """A class name exists once in the source."""
    places: dict[str, list[Finding]] = defaultdict(list)
    for module in tree.modules:
        for cls in _classes(module.syntax) if module.is_source else ():
            places[cls.name].append(Finding(module.path, cls.lineno, cls.name))
    for name, all_places in sorted(places.items()):
        for place in all_places[1:]:
            first = f"{all_places[0].path}:{all_places[0].line}"
            yield place._replace(text=f"class `{name}` exists already in {first}; give one of them another name")


def folders(tree: Tree) -> Iterator[Finding]:
    """No folder of the source has more modules than a reader can overlook; the CLI has one module a verb."""
    paths = (Path(module.path) for module in tree.modules if module.is_source)
    sizes = Counter(path.parent.as_posix() for path in paths if path.stem != "__init__")
    for folder, size in sorted(sizes.items()):
        if size > MOST_MODULES and Path(folder).name != "cli":
            yield Finding(folder, 1, f"{size} modules, more than {MOST_MODULES}; make sub-folders by subject")


def sizes(tree: Tree) -> Iterator[Finding]:
    """No module is long without a reason; a module of tests is a list of promises and may be."""
    for module in tree.modules:
        lines = module.text.count("\n")
        is_excused = module.is_test or LONG_BECAUSE.search(ast.get_docstring(module.syntax) or "")
        if lines > MOST_LINES and not is_excused:
            how = "split it, or say why in its docstring: `Long because: ...`"
            yield Finding(module.path, 1, f"{lines} lines, more than {MOST_LINES}; {how}")


def rules(tree: Tree) -> Iterator[Finding]:
    """Every rule that is cited is defined, has a test that cites it, and no link of the page leads nowhere."""
    defined = tree.rules
    for path, line, rule in citations(tree):
        if rule not in defined:
            yield Finding(path, line, f"rule `{rule}` is not defined; define it in {RULES}")
    for rule, (line, text) in defined.items():
        links = TEST_LINK.findall(text)
        if not links:
            yield Finding(RULES, line, f"rule `{rule}` names no test; link one as [`test_name`](path)")
        for test, link in links:
            yield from _test_exists(tree, rule, line, test, link)
    for number, text in enumerate(tree.pages.get(RULES, "").splitlines(), 1):
        for link in LINK.findall(text):
            if not (tree.root / RULES).parent.joinpath(link).exists():
                yield Finding(RULES, number, f"link `{link}` leads nowhere")


def citations(tree: Tree) -> Iterator[tuple[str, int, str]]:
    """Where a rule is cited: in comments and strings of code, and in pages."""
    prose = [(module.path, line, text) for module in tree.modules for line, text in module.prose()]
    prose += [(path, 1, text) for path, text in tree.pages.items()]
    for path, start, text in prose:
        for cited in CITATION.finditer(text):
            line = start + text.count("\n", 0, cited.start())
            for number in range(int(cited[2]), int(cited[3] or cited[2]) + 1):
                yield path, line, f"{cited[1]}{number}"


def _test_exists(tree: Tree, rule: str, line: int, test: str, link: str) -> Iterator[Finding]:
    path = (tree.root / RULES).parent.joinpath(link).resolve()
    module = next((module for module in tree.modules if (tree.root / module.path).resolve() == path), None)
    functions = ast.walk(module.syntax) if module else ()
    for node in functions:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test and module:
            prose = f"{ast.get_docstring(module.syntax)}\n{ast.get_source_segment(module.text, node)}"
            if rule not in _cited(prose):
                yield Finding(module.path, node.lineno, f"`{test}` is a test of rule `{rule}` and does not cite it")
            return
    yield Finding(RULES, line, f"rule `{rule}`: there is no test `{test}` in {link}")


def _cited(text: str) -> set[str]:
    ranges = CITATION.findall(text)
    return {f"{letter}{n}" for letter, low, high in ranges for n in range(int(low), int(high or low) + 1)}


def words(tree: Tree) -> Iterator[Finding]:
    """Names are in the words of the field (docs/glossary.md)."""
    for module in tree.modules:
        for name in sorted(set(module.names()), key=lambda name: (name.line, name.text)):
            for word, right in _wrong_words(name):
                where = f"`{word}` in `{name.text}`" if word != name.text else f"`{word}`"
                yield Finding(module.path, name.line, f"{where}: say {right}")


def _wrong_words(name: Name) -> Iterator[tuple[str, str]]:
    if name.is_wire:
        return
    parts = split(name.text)
    whole = MODULES if name.is_module else VARIABLES
    if name.text in whole:
        yield name.text, whole[name.text]
    terms = {word for term in TERMS if term in pairwise(parts) for word in term}
    for word in parts:
        if word in (PERSONS if name.is_test else WORDS) and word not in terms:
            yield word, WORDS[word]


def split(name: str) -> list[str]:
    """The words of a name, in snake or camel case."""
    return [word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", part)]


Check = Callable[[Tree], Iterator[Finding]]
CHECKS: dict[str, Check] = {check.__name__: check for check in (classes, folders, sizes, rules, words)}


def summary(findings: list[tuple[str, Finding]]) -> Iterator[str]:
    """How many findings each check has in each folder."""
    areas = Counter((name, _area(Path(finding.path))) for name, finding in findings)
    for (name, area), number in sorted(areas.items()):
        yield f"{name:8} {number:5}  {area}"


def _area(path: Path) -> str:
    depth = 3 if path.parts[:2] in (("src", "muster"), ("tests", "unit")) else 2
    return "/".join(path.parent.parts[:depth])


def main(arguments: list[str] | None = None) -> int:
    """Print what is to mend; the exit code says whether there is anything."""
    parser = argparse.ArgumentParser(prog="checks.tree", description="names, sizes, rules and words of the tree")
    parser.add_argument("check", nargs="*", choices=[[], *CHECKS], help="all of them, unless some are named")
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--summary", action="store_true", help="numbers by folder")
    options = parser.parse_args(arguments)
    tree = Tree(options.root)
    findings = [(name, finding) for name in options.check or CHECKS for finding in CHECKS[name](tree)]
    lines = summary(findings) if options.summary else (str(finding) for _, finding in findings)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
