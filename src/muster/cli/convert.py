"""`muster convert`: older dialects to the form of record."""

import click
from msgspec import Struct

from muster.api import codec
from muster.api.reader import parse_documents
from muster.cli import inputs, options, printing
from muster.conversion.older_formats import READINGS, Conversion, Reading, convert
from muster.errors import InputError, MusterError
from muster.kube.manifest_files import ManifestFile, replace, sources


class Converted(Struct, frozen=True):
    """One file in the form of record."""

    source: ManifestFile
    results: tuple[Conversion, ...]

    @property
    def changed(self) -> bool:
        """Whether the file differs from before."""
        return any(result.changes for result in self.results)


@click.command("convert")
@options.files
@click.option(
    "--dialect",
    "reading",
    type=click.Choice(READINGS),
    default="auto",
    show_default=True,
    help="What `minMember` counts on a group with children; auto refuses where both are possible.",
)
@click.option("--in-place", is_flag=True, help="Rewrite the files that need a change.")
@options.output("yaml", "json")
@options.max_file_mib
def command(files: tuple[str, ...], reading: Reading, in_place: bool, form: str, max_file_mib: int) -> int:
    """Rewrite PodGroups of older dialects to the form of record; pass everything else unchanged.

    Unknown fields stay; comments are lost. Notes on stderr name each change. Writes nothing unless every file can be
    converted. Exit code 1: some file was refused, with the reason.

    \b
    Examples:
      muster convert old.yaml > new.yaml
      muster convert --in-place workloads/
      muster convert --dialect pods old.yaml
    """
    if in_place and "-" in files:
        raise InputError("standard input has no place to write back to", hint="leave out `--in-place`")
    done, refused = _convert_all(files, reading, max_file_mib)
    for error in refused:
        printing.say(f"error: {error}")
    if refused:
        return max(error.exit_code for error in refused)
    for converted in done:
        for change in (change for result in converted.results for change in result.changes):
            printing.note(change)
    if not in_place:
        printing.emit_file(form, [result.raw for converted in done for result in converted.results])
        return 0
    for converted in done:
        if converted.changed and converted.source.path is not None:
            replace(converted.source.path, _text(converted))
    printing.say(f"{sum(converted.changed for converted in done)} of {len(done)} files rewritten")
    return 0


def _convert_all(
    files: tuple[str, ...], reading: Reading, max_file_mib: int
) -> tuple[list[Converted], list[MusterError]]:
    done: list[Converted] = []
    refused: list[MusterError] = []
    for source in sources(files, max_file_mib):
        results: list[Conversion] = []
        for document in _documents(source):
            try:
                results.append(convert(document, reading))
            except MusterError as error:
                refused.append(error)
        done.append(Converted(source, tuple(results)))
    return done, refused


def _documents(source: ManifestFile) -> list[codec.Document]:
    """Whole documents, lists as lists; InputError where one is not a Kubernetes object."""
    inputs.read_source(source)
    whole = parse_documents(source.data, source.name)
    return [
        codec.Document(source.name if len(whole) == 1 else f"{source.name}, document {i}", raw)
        for i, raw in enumerate(whole, 1)
    ]


def _text(converted: Converted) -> str:
    """The file's new text, in JSON where the old one was JSON."""
    raws = [result.raw for result in converted.results]
    if converted.source.data.lstrip()[:1] == b"{":
        return "".join(codec.to_json(raw) + "\n" for raw in raws)
    return codec.to_yaml(raws)
