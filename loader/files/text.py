"""Decodes the text of files that a user has written: configs, positions, games."""

from __future__ import annotations

import codecs
import tomllib
from typing import Any

from loader.files.compression import find_decompress_command

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parses the content of a TOML file. Raises ValueError that says what is wrong, with the line."""
    text = decode_text(content)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also Python's, for an integer of very many digits
        raise ValueError(f"not TOML: {error}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_text(content: bytes, *, latin: bool = False) -> str:
    """Decodes UTF-8 text, with or without a byte order mark. With `latin`, bytes that are not UTF-8 are decoded as
    Latin-1, the encoding of the PGN standard.

    Raises ValueError, with the line, for bytes that are no text.
    """
    program = find_decompress_command(content)
    if program is not None:
        raise ValueError(f"is compressed; give what `{program}` makes of it, as a file or as <({program} FILE)")
    if content.startswith(_UTF16):
        raise ValueError("is UTF-16 text: save it as UTF-8")
    zero_offset = content.find(b"\0")
    if zero_offset >= 0:
        raise ValueError(f"line {_line_number(content, zero_offset)}: is not text: it has a byte 0")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        if latin:
            return content.decode("latin-1")
        raise ValueError(f"line {_line_number(content, error.start)}: is not UTF-8 text") from None


def _line_number(content: bytes, offset: int) -> int:
    """Returns the number of the line that holds the byte at `offset`, from 1 on."""
    return content.count(b"\n", 0, offset) + 1
