"""docs/reference/cli.md, from the commands."""

import inspect
import textwrap
from collections.abc import Iterator

import click

from checks.reference.tables import row
from muster.cli.main import VERBS, cli

HEAD = """\
# Command line

<!-- Made from src/muster/cli by `make golden`; change it there. -->

`muster` prints data on stdout and everything else on stderr. FILE is a file, a folder or `-`; YAML or JSON, many
documents, `List` kinds too. Colour appears on a terminal only, and `NO_COLOR` switches it off.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the answer is no: an invalid file, or gangs that wait under `--require-all` |
| 2 | wrong usage, or input that cannot be read |

| verb | what it does |
|---|---|
"""


def reference() -> str:
    """Every verb with its help, examples and options."""
    rows = (row(f"[`muster {verb}`](#muster-{verb})", about) for verb, about in VERBS.items())
    return HEAD + "".join(rows) + "".join(map(_section, VERBS))


def _section(verb: str) -> str:
    context = click.Context(cli, info_name="muster", **cli.context_settings)
    command = cli.get_command(context, verb)
    assert command is not None
    own = click.Context(command, info_name=verb, parent=context)
    usage = " ".join((own.command_path, *command.collect_usage_pieces(own)))
    about = "".join(_paragraph(text) for text in inspect.cleandoc(command.help or "").split("\n\n"))
    options = "".join(row(f"`{flags}`", text) for flags, text in _options(command, own))
    return f"\n## muster {verb}\n\n```text\n{usage}\n```\n\n{about}| option | |\n|---|---|\n{options}"


def _paragraph(text: str) -> str:
    """A paragraph of a help text; one whose lines click keeps apart is a block of commands under a title."""
    if not text.startswith("\b"):
        return " ".join(text.split()).replace("<", "&lt;") + "\n\n"
    title, *lines = text.removeprefix("\b").strip("\n").split("\n")
    block = textwrap.dedent("\n".join(lines))
    return f"{title}\n\n```sh\n{block}\n```\n\n"


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    options = (param for param in command.get_params(context) if isinstance(param, click.Option))
    records = (option.get_help_record(context) for option in options)
    return (record for record in records if record is not None)
