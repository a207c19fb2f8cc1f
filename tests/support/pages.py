"""Pages of the documentation, as far as they can be run: the files that they show and the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*(DOCS / "tutorial").glob("*.md"), *(DOCS / "how-to").glob("*.md")])
_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    language: str
    text: str
    title: str  # of a file; empty if it is none
    note: str  # the comment above it

    @property
    def is_left_out(self) -> bool:
        return self.note.startswith("not run: ")


def blocks(page: Path) -> Iterator[Block]:
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Block(block["language"], block["text"], block["title"] or "", block["note"] or "")


def files(page: Path) -> dict[str, str]:
    """The files that a page shows, and those of the pages that it builds on: a comment `files: PAGE` names them."""
    shown: dict[str, str] = {}
    for block in blocks(page):
        if block.note.startswith("files: "):
            shown |= files(page.parent / block.note.removeprefix("files: "))
        if block.title:
            shown[block.title] = block.text
    return shown


def script(page: Path) -> str:
    """The commands to run."""
    return "".join(block.text for block in blocks(page) if block.language == "sh" and not block.is_left_out)


def shown_output(page: Path) -> Iterator[str]:
    """Lines that the page says its commands print, without `...`, which stands for what is left out."""
    for block in blocks(page):
        if block.language == "text" and not block.title and not block.is_left_out:
            yield from (line for line in block.text.splitlines() if line.strip() not in ("", "..."))


def write_files(page: Path, folder: Path) -> None:
    for name, text in files(page).items():
        (folder / name).write_text(text, encoding="utf-8")
