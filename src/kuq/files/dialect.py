"""How a text file writes a table: its encoding, what separates fields, and the decimal mark.

What the file says for certain is used; what may be read in two ways is refused.
"""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from kuq.errors import ParameterError
from kuq.files.number_marks import PYTHONS, THOUSANDS_IN_WORDS, NumberMarks

#: Marks at the start of a file that tell its encoding, and those of files that are no text.
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NO_TEXT = {
    b"PK\3\4": "a spreadsheet or archive",
    b"PAR1": "Parquet",
    b"\x1f\x8b": "compressed",
}
_SEPARATORS = (",", ";", "\t", "|")
_SHOWN = {"\t": "a tab", ",": "a comma", ";": "a semicolon", "|": "a bar"}
_TOLD = re.compile("sep=([,;\t|])\r?\n?")
_LONGEST_TOLD = 8
_ROWS = 20
_BLOCK = 2**20
#: Bytes that no table in a legacy encoding has: control characters but tab, newline and return.
_CONTROL = frozenset(range(32)) - {9, 10, 13} | {127}


@dataclass(frozen=True)
class TextForm:
    """What a caller says of a text file; None is found in the file.

    ``delimiter`` is a comma, a semicolon, a bar or a tab (also "tab"); ``decimal`` a point or a
    comma; ``encoding`` any that Python knows by name; ``thousands``, what separates them, a point,
    a comma, an apostrophe or a space (also "space").
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    thousands: str | None = None

    def checked(self) -> TextForm:
        """The same with marks and names as they are in files."""
        delimiter = {"tab": "\t", "\\t": "\t"}.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and delimiter not in _SEPARATORS:
            raise ParameterError(
                f"--delimiter must be ',', ';', '|' or 'tab', got {self.delimiter!r}"
            )
        if self.decimal not in (None, ".", ","):
            raise ParameterError(f"--decimal must be '.' or ',', got {self.decimal!r}")
        thousands = {"space": " "}.get(self.thousands or "", self.thousands)
        if thousands is not None and thousands not in THOUSANDS_IN_WORDS:
            raise ParameterError(
                f"--thousands must be '.', ',', \"'\" or 'space', got {self.thousands!r}"
            )
        if thousands is not None and thousands == self.decimal:
            raise ParameterError(f"--decimal and --thousands are both {thousands!r}; one differs")
        try:
            encoding = None if self.encoding is None else codecs.lookup(self.encoding).name
            "".encode(encoding or "utf-8")
        except LookupError:
            raise ParameterError(
                f"--encoding must be one that Python knows, such as utf-8, latin-1 or cp1252, got "
                f"{self.encoding!r}"
            ) from None
        return TextForm(delimiter, self.decimal, encoding, thousands)

    def options(self) -> list[str]:
        """The options of the command line that were given."""
        return [f"--{name}" for name, value in vars(self).items() if value is not None]


@dataclass(frozen=True)
class Dialect:
    """How a table is written; the marks of its numbers are known once these were read."""

    separator: str = ","
    encoding: str = "utf-8"
    marks: NumberMarks = PYTHONS
    #: Whether the first line tells the separator, ``sep=;``, as spreadsheets write it.
    told: bool = False
    #: What the caller says of numbers.
    form: TextForm = field(default_factory=TextForm)

    @property
    def notes(self) -> tuple[str, ...]:
        """What differs from the usual, for the reader of a result."""
        differences = []
        if self.separator != ",":
            differences.append(f"fields are separated by {_SHOWN[self.separator]}")
        if self.marks.decimal != ".":
            differences.append("numbers have decimal commas")
        if self.marks.thousands:
            between = THOUSANDS_IN_WORDS[self.marks.thousands]
            differences.append(f"numbers have {between} between thousands")
        if self.encoding == "cp1252":
            differences.append("the text is not UTF-8 and was read as Windows-1252")
        elif self.encoding == "utf-16":
            differences.append("the text is UTF-16")
        return ("; ".join(differences),) if differences else ()

    @property
    def output_encoding(self) -> str:
        """That of the input, so that what wrote the one reads the other.

        Some say nothing of themselves, neither by a mark nor by plain letters that are ASCII: what
        they hold is written in UTF-8 with a mark.
        """
        told = self.encoding == "utf-16" or "total".encode(self.encoding) == b"total"
        return self.encoding if told else "utf-8-sig"


def find_dialect(path: Path, form: TextForm | None = None) -> Dialect:
    """The encoding of a file and what separates its fields, by the file or by its caller."""
    form = TextForm() if form is None else form.checked()
    if path.stat().st_size == 0:
        raise ParameterError(f"{path} is empty")
    encoding = _encoding(path, form.encoding)
    with path.open(encoding=encoding, newline="") as file:
        try:
            told = _TOLD.fullmatch(file.readline(_LONGEST_TOLD))
        except UnicodeError as error:
            raise ParameterError(f"{path} is not text: {error}") from None
    separator = told[1] if told is not None else form.delimiter or _separator(path, encoding)
    if form.delimiter not in (None, separator):
        raise ParameterError(
            f"{path} says that its fields are separated by {separator!r}, and --delimiter says "
            f"{form.delimiter!r}; leave the option out"
        )
    return Dialect(separator, encoding, told=told is not None, form=form)


@contextmanager
def rows_of(
    path: Path, dialect: Dialect
) -> Iterator[tuple[Iterator[list[str]], Callable[[], int]]]:
    """The rows of a file, and at which line of it the reader is."""
    with path.open(encoding=dialect.encoding, newline="") as text:
        before = 1 if dialect.told else 0
        for _ in range(before):
            text.readline()
        reader = csv.reader(
            _without_nul(text), delimiter=dialect.separator, strict=True, skipinitialspace=True
        )
        try:
            yield reader, lambda: reader.line_num + before
        except csv.Error as error:
            raise ParameterError(
                f"{path} cannot be read as a table: {error} at line {reader.line_num + before}"
            ) from None
        except UnicodeError as error:
            raise ParameterError(f"{path} is not text: {error}") from None


def _without_nul(lines: TextIO) -> Iterator[str]:
    for line in lines:
        if "\0" in line:
            raise csv.Error("there is a zero byte")
        yield line


def _encoding(path: Path, told: str | None) -> str:
    """As told, by its mark, or UTF-8 if all of it is, or else Windows-1252 if it can be that."""
    with path.open("rb") as file:
        start = file.read(4)
        for mark, kind in _NO_TEXT.items():
            if start.startswith(mark):
                raise ParameterError(f"{path} is {kind}, not text; save it as CSV in UTF-8")
        for mark, encoding in _ENCODINGS.items():
            if start.startswith(mark) and told in (None, encoding, encoding.removesuffix("-sig")):
                return encoding
        if told is not None:
            return told
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
            return "utf-8"
        except UnicodeDecodeError as error:
            wrong = error.object[error.start]
        file.seek(0)
        try:
            while block := file.read(_BLOCK):
                block.decode("cp1252")
                if not _CONTROL.isdisjoint(block):
                    raise ValueError("there are control characters")
            return "cp1252"
        except ValueError:
            raise ParameterError(
                f"{path} is not text in UTF-8 or Windows-1252 (a byte {wrong:#04x}); say what it "
                "is (--encoding), or save it as CSV in UTF-8"
            ) from None


def _separator(path: Path, encoding: str) -> str:
    """What cuts the header into fields, and the first rows into as many as the header has."""
    counts = {one: _field_counts(path, Dialect(one, encoding)) for one in _SEPARATORS}
    cutting = {one: fields for one, fields in counts.items() if fields and fields[0] > 1}
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    if not cutting:
        several = {one: fields for one, fields in counts.items() if len(fields) > 2}
        later = {one: fields[-1] for one, fields in several.items() if fields[-2] == fields[-1]}
        one = max(later, key=lambda mark: later[mark], default=usual)
        if later.get(one, 1) > 2:
            raise ParameterError(
                f"{path}: the first line has one field, and later lines have {later[one]}, "
                f"separated by {_SHOWN[one]}; the names of the columns have to be the first line: "
                "remove what stands above them"
            )
        return usual
    even = [one for one, fields in cutting.items() if len(set(fields)) == 1]
    if len(even) > 1:
        both = " or ".join(repr(one) for one in even)
        raise ParameterError(
            f"{path}: fields may be separated by {both}, which gives different tables; say which "
            f"({', '.join(map(_option, even))}), or put names and cells that hold the other mark "
            "into quotes"
        )
    # An uneven table is refused later, with its line.
    return even[0] if even else max(cutting, key=lambda one: (cutting[one][0], one == usual))


def _option(separator: str) -> str:
    return f"--delimiter '{'tab' if separator == chr(9) else separator}'"


def _field_counts(path: Path, dialect: Dialect) -> list[int]:
    """How many fields the first rows have; none where the text cannot be cut in this way."""
    try:
        with rows_of(path, dialect) as (rows, _):
            filled = (row for row in rows if row)
            return [len(row) for row in itertools.islice(filled, _ROWS)]
    except ParameterError:
        return []
