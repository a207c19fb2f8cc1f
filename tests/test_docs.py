"""The documentation points at what is there, shows commands that exist and settings that are accepted."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from loader.cli import build_app
from pool.cli import app
from pool.config import parse_config

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (".", "docs", "docs/decisions", "deploy", "configs/sample")
PAGES = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:loader|pool|tests|docs|deploy|configs)/[\w./-]+)`")
COMMANDS: dict[str, Any] = {"pool": typer.main.get_command(app), "loader": typer.main.get_command(build_app())}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings: lower case, spaces to hyphens, without punctuation."""
    text = BLOCK.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(path: Path) -> Iterator[list[str]]:
    """The lines of code blocks that begin with one of our commands, as words."""
    for language, block in BLOCK.findall(path.read_text(encoding="utf-8")):
        for line in block.splitlines() if language == "sh" else ():
            words = shlex.split(line, comments=True)
            if words and words[0] in COMMANDS:
                yield words


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{name(page)}: {target}"
        assert not anchor or anchor in anchors(path), f"{name(page)}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_of_the_source_that_is_named_exists(page: Path) -> None:
    for path in PATH.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), f"{name(page)}: {path}"


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=name)
def test_every_command_shown_exists_with_these_options(page: Path) -> None:
    for words in commands(page):
        command = COMMANDS[words[0]].commands.get(words[1])
        assert command is not None, f"{name(page)}: {' '.join(words)}"
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        given = {word.partition("=")[0] for word in words[2:] if word.startswith("-")}
        assert given <= known, f"{name(page)}: {' '.join(words)}: {given - known}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_shown_can_be_pasted_into_zsh(page: Path) -> None:
    """Which refuses a pattern that matches nothing, and at the prompt takes `#` for a word."""
    blocks = [block for language, block in BLOCK.findall(page.read_text(encoding="utf-8")) if language == "sh"]
    for line in (line for block in blocks for line in block.splitlines() if not line.startswith("#")):
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
        assert not re.search(r"[*?\[]| #", bare), f"{name(page)}: {line}"


def test_the_readme_shows_every_command() -> None:
    shown = {tuple(words[:2]) for words in commands(ROOT / "README.md")}
    assert shown == {(program, command) for program, group in COMMANDS.items() for command in group.commands}


def test_the_config_of_the_readme_is_accepted() -> None:
    blocks = [block for language, block in BLOCK.findall((ROOT / "README.md").read_text()) if language == "toml"]
    assert len(blocks) == 1
    assert parse_config(tomllib.loads(blocks[0]), "README.md").model_dump()["model"]["l1"] == 1024


def test_every_recipe_is_accepted() -> None:
    for path in sorted((ROOT / "configs").glob("*.toml")):
        parse_config(tomllib.loads(path.read_text(encoding="utf-8")), path.name)
