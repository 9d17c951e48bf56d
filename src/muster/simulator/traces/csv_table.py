"""Rows of a CSV file, one at a time; what is wrong with one is said with file and line.

Rule: memory is that of one row, whatever the file is.
"""

import codecs
import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from muster.control_characters import visible
from muster.errors import InputError
from muster.validation.problem import listed

LARGEST = 1e15  # of a number in a cell
LONGEST_LINE = 2**20  # characters


class CsvRow(Struct, frozen=True, gc=False):
    """One row, and where it stands."""

    source: str
    line: int
    columns: Mapping[str, int]  # by name, its number
    cells: list[str]

    def text(self, column: str) -> str:
        """The cell of a column; empty: it is empty, or the mapping names no column."""
        number = self.columns.get(column, -1)
        return self.cells[number].strip() if 0 <= number < len(self.cells) else ""

    def number(self, column: str) -> float | None:
        """The number in a cell, not negative; None: the cell is empty."""
        text = self.text(column)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            raise self.error(column, f"`{visible(text[:40])}` is no number") from None
        if isnan(number):
            raise self.error(column, f"`{visible(text[:40])}` is no number")
        if number > LARGEST:
            raise self.error(column, f"`{visible(text[:40])}` is too large")
        if number < 0:
            raise self.error(column, f"`{visible(text[:40])}` is negative")
        return number

    def error(self, column: str, says: str) -> InputError:
        """An error about a cell."""
        return InputError(f"{self.source}, line {self.line}: `{column}`: {says}", hint="mend the row, or leave it out")


def read_rows(path: Path, columns: Iterable[str]) -> Iterator[CsvRow]:
    """Every row of a file that has these columns; InputError: it cannot be read, lacks one, or has no row."""
    source, is_empty = visible(str(path)), True
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(_lines(file, source), strict=True)
            names = next(reader, [])
            _check_columns(source, names, columns)
            numbers = {name: i for i, name in enumerate(names)}
            for cells in reader:
                if cells:
                    is_empty = False
                    _check_cells(source, reader.line_num, cells, len(names))
                    yield CsvRow(source, reader.line_num, numbers, cells)
    except FileNotFoundError:
        raise InputError(f"{source}: no such file", hint="paths begin at the folder of the scenario") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        where = f"{source}, line {_first_undecodable(path)}"
        raise InputError(f"{where}: is not text in UTF-8", hint="is it a CSV file, and in UTF-8?") from None
    except csv.Error as error:
        raise InputError(f"{source}, line {reader.line_num}: is not CSV: {error}") from None
    if is_empty:
        raise InputError(f"{source}: holds no rows", hint="a trace without rows simulates nothing")


def _lines(file: TextIO, source: str) -> Iterator[str]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{source}, line {number}: is longer than {LONGEST_LINE:,} characters", hint="is it a CSV file?"
            )
        yield line


def _first_undecodable(path: Path) -> int:
    """The line that is not in UTF-8: text is decoded some lines ahead of the one that is read."""
    number, head = 1, b""  # the beginning of a character that a part of a line has cut off
    with path.open("rb") as file:
        while part := file.readline(LONGEST_LINE):
            text = head + part
            try:
                head = text[codecs.utf_8_decode(text)[1] :]
            except UnicodeDecodeError:
                break
            number += part.endswith(b"\n")
    return number


def _check_columns(source: str, known: Iterable[str], columns: Iterable[str]) -> None:
    known = list(known)
    if not known:
        raise InputError(f"{source}: is empty", hint="its first line names the columns")
    for name in filter(None, columns):
        if name not in known:
            raise InputError(
                f"{source}, line 1: there is no column `{visible(name)}`", hint=f"known: {visible(listed(known))}"
            )
        if known.count(name) > 1:
            raise InputError(
                f"{source}, line 1: column `{visible(name)}` is there {known.count(name)} times", hint="rename one"
            )


def _check_cells(source: str, line: int, cells: Sequence[str], columns: int) -> None:
    """A row that was cut off, or has a comma too many, would be read as another; empty cells at its end may stand."""
    if len(cells) < columns or any(cells[columns:]):
        raise InputError(
            f"{source}, line {line}: has {len(cells)} cells, and there are {columns} columns",
            hint="mend the row, or leave it out; text with a comma stands in quotes",
        )
