"""Recognizes compressed data files by their first bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from loader.files.identity import DataFile
from loader.files.regular import open_regular

# The first bytes of a compressed file, and the command that decompresses it.
_COMPRESSED = (
    (re.compile(rb"\x1f\x8b"), "gzip -dc"),  # RFC 1952
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd -dc"),  # RFC 8878
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "bzip2 -dc"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz -dc"),
    (re.compile(rb"PK(\x03\x04|\x05\x06)"), "unzip -p"),
    (re.compile(rb"\x04\x22\x4d\x18"), "lz4 -dc"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "7z e -so"),
)
READABLE_COMMANDS = ("gzip -dc", "zstd -dc", "bzip2 -dc")  # what the native part decompresses itself
READABLE_ENDINGS = ("", ".gz", ".zst", ".bz2")  # endings of files that the native part reads
# Endings of names, by the command: formats with such an ending read the files as they are.
ENDING_BY_COMMAND = {"gzip -dc": ".gz", "zstd -dc": ".zst", "bzip2 -dc": ".bz2", "unzip -p": ".npz"}


def find_decompress_command(head: bytes) -> str | None:
    """Returns the command that decompresses a file which begins with `head`, or None if the file is not compressed."""
    for magic, command in _COMPRESSED:
        if magic.match(head):
            return command
    return None


def is_readably_compressed(file: DataFile) -> bool:
    """Returns whether a file is compressed in a way that the native part can read. Returns False for a file that can't
    be read, since opening it later raises the error."""
    try:
        descriptor = open_regular(file.path)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as opened:
        return find_decompress_command(opened.read(16)) in READABLE_COMMANDS


def describe_compression(files: Sequence[DataFile], samples: str) -> Sequence[str]:
    """Returns notes for the user, before a run, on what it means that some files are compressed; none if no file is.
    `samples`: what the files contain, in the plural ("rows")."""
    compressed_nbytes = sum(file.size for file in files if is_readably_compressed(file))
    if not compressed_nbytes:
        return ()
    return (
        f"{compressed_nbytes / 1e6:,.1f} MB of files are compressed: {samples} are read in the order of the files, and "
        "shuffled within data.window_chunks only; when the feeder is restarted it decodes a file again up to its place",
    )
