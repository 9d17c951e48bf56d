"""The `muster` command. A verb is imported when it is called, so that `--help` is fast."""

import gc
import os
import sys
from importlib import import_module

import click

from muster import __version__
from muster.control_characters import visible_lines
from muster.errors import MusterError

VERBS = {
    "validate": "Check manifests: every problem with its path and a hint.",
    "convert": "Rewrite older dialects to the form of record.",
    "group": "Show which PodGroups workloads get, by which rule and minimum.",
    "plan": "Run one scheduling cycle on files: placements, and why gangs wait.",
    "explain": "Explain why a gang waits or is placed where it is, and what would help.",
    "topology": "Show the cluster by topology domain, with free resources.",
    "queues": "Show the queues with their quotas, fair shares and usage.",
    "tree": "Draw gangs as trees: minimums, placed pods, core and optional.",
    "simulate": "Run scenarios or traces in virtual time: waits, utilisation, evictions.",
    "conformance": "Run the cases that any gang scheduler should pass.",
    "run": "Run the control plane against a Kubernetes cluster.",
    "snapshot": "Capture a live cluster into files that every verb reads.",
    "up": "Start an embedded cluster: API server for kubectl, simulated nodes, scheduler.",
    "crds": "Print the CRDs to install.",
    "wait-for-cliques": "In an init container: wait until the pod may start.",
}


class Verbs(click.Group):
    """Lists every verb from the table; imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """In the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The verb, imported now."""
        if cmd_name not in VERBS:
            return None
        gc.disable()  # modules stay: there is nothing to collect
        try:
            command: click.Command = import_module(f"muster.cli.{cmd_name.replace('-', '_')}").command
        finally:
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Fail on an unknown verb with the list of those that exist."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            ctx.fail(f"there is no verb `{args[0]}`; known: {', '.join(VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Without importing any of them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    cls=Verbs,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`muster VERB --help` explains each verb, with examples. Data goes to stdout, everything else to stderr. "
    "Exit codes: 0 done; 1 the answer is no; 2 wrong usage or unreadable input.",
)
@click.version_option(__version__, message="muster %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A gang scheduler for Kubernetes: nothing starts until enough have mustered, at every level."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run a verb; every failure ends in a sentence and an exit code, never in a traceback."""
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except MusterError as error:
        code = _fail(f"error: {error}", error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        verb = context.command_path if context else "muster"
        code = _fail(f"error: {error.format_message()}\n  hint: `{verb} --help` shows how it is used", 2)
    except (click.Abort, KeyboardInterrupt):
        code = _fail("stopped", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader closed the pipe: not an error
        code = 0
    except OSError as error:
        code = _fail(f"error: the output cannot be written: {error.strerror or error}", 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # drop the rest of the output
    except Exception as error:
        if os.environ.get("MUSTER_DEBUG"):
            raise
        code = _fail(
            f"internal error: {type(error).__name__}: {error}\n  hint: MUSTER_DEBUG=1 shows where; please report", 2
        )
    sys.exit(code if isinstance(code, int) else 0)


def _fail(text: str, code: int) -> int:
    print(visible_lines(text), file=sys.stderr)  # noqa: T201 (the one place where an error meets the terminal)
    return code


if __name__ == "__main__":
    main()
