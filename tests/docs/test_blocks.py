"""Code blocks of the documentation: manifests are valid, programs run, commands have the options that they use."""

import ast
import shlex
from pathlib import Path

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner

from muster.cli.main import VERBS, cli
from muster.config import loading
from muster.config.settings import Config
from tests.support.doc_pages import CodeBlock, blocks, each, folder_for

SETTINGS = {field.encode_name for field in msgspec.structs.fields(Config)}


@each(blocks("yaml"))
def test_a_yaml_block_is_valid(block: CodeBlock, tmp_path: Path) -> None:
    """Objects pass `muster validate`, settings load; the rest is a part of a manifest, and YAML."""
    path = tmp_path / "shown.yaml"
    path.write_text(block.text, encoding="utf-8")
    documents = [document for document in yaml.safe_load_all(block.text) if document is not None]
    assert documents
    if all("kind" in document for document in documents):
        result = CliRunner().invoke(cli, ["validate", str(path)], catch_exceptions=False, standalone_mode=False)
        assert result.return_value in (0, None), result.output
    elif all(SETTINGS.issuperset(document) for document in documents):
        loading.load(path)


@each(blocks("python"))
def test_a_python_block_runs(block: CodeBlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program, which begins with its imports, runs; a fragment is Python."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(block.text, str(block), "exec", flags=flags)
    if block.text.startswith(("import ", "from ")):
        monkeypatch.chdir(folder_for(block.page, tmp_path))
        exec(code, {})


def muster_commands(block: CodeBlock) -> list[list[str]]:
    """The words of every call of muster, in pipes, too; comments and continued lines read as a shell does."""
    lines = "\n".join(block.commands) if block.language == "console" else block.text
    words = [shlex.split(line, comments=True) for line in lines.replace("\\\n", " ").splitlines()]
    calls = [_after_pipes(line) for line in words]
    return [call[1:] for line in calls for call in line if call[:1] == ["muster"] and len(call) > 1]


def _after_pipes(words: list[str]) -> list[list[str]]:
    calls: list[list[str]] = [[]]
    for word in words:
        if word in ("|", "&&", ";", "||"):
            calls.append([])
        elif word in (">", "2>", "&", ">>"):
            break
        else:
            calls[-1].append(word)
    return calls


@each([block for block in blocks("console", "sh") if muster_commands(block)])
def test_a_command_has_the_options_that_it_uses(block: CodeBlock) -> None:
    """Also where it is not run: a renamed option is renamed in the documentation."""
    for verb, *words in muster_commands(block):
        if verb.startswith("-"):
            continue
        assert verb in VERBS, verb
        command = cli.get_command(click.Context(cli), verb)
        assert command is not None
        context = click.Context(command, info_name=verb, **cli.context_settings)
        command.make_parser(context).parse_args(args=list(words))


@pytest.mark.parametrize("text", ["$ muster plan --nonsense x", "$ muster plan a | muster plan --nonsense x"])
def test_a_wrong_option_is_noticed(text: str) -> None:
    """The test above can fail."""
    block = CodeBlock(Path(), 1, "console", text)
    with pytest.raises(click.NoSuchOption):
        test_a_command_has_the_options_that_it_uses(block)
