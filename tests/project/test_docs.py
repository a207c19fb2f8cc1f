"""Documentation points at what is there, shows commands that exist, settings that are accepted, messages that are
written. That its commands work as printed: tests/project/test_docs_run.py.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import typer

from loader import exit_codes
from loader.cli.main import PROGRAM as LOADER
from pool.commands.main import PROGRAM as POOL
from pool.coordinator.metrics.newest import TAGS
from pool.supervisor.resources.signals import STOP_SIGNALS
from tests.support.configs import configs_in
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "configs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:loader|pool|tests|docs|deploy|configs|benchmarks)/[\w./@-]+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
DECISION = re.compile(r"(?:\(|decision )(0\d\d)\b")
COMMANDS: dict[str, Any] = {program.name: typer.main.get_command(program.app()) for program in (POOL, LOADER)}
GENERATED = runpy.run_path(str(DOCS / "reference/generate.py"))["PAGES"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """Returns what GitHub and the site make of the headings: lower case, spaces to hyphens, without punctuation."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", text_of(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(path: Path) -> Iterator[list[str]]:
    """Yields our commands in the lines of code blocks, as words; several in a line if it is a chain of pipes."""
    for language, block in BLOCK.findall(text_of(path)):
        for line in block.splitlines() if language == "sh" else ():
            words = shlex.split(line, comments=True)
            for begins, chained in groupby(words, lambda word: word != "|"):
                command = list(chained)
                if begins and command[0] in COMMANDS:
                    yield command


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its first two rows."""
    _, found, rest = text_of(DOCS / page).partition(f"\n## {heading}\n")
    assert found, f"{page}: no heading {heading!r}"
    rows = re.findall(r"^\|(.*)\|$", rest.split("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows[2:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(text_of(page)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{name(page)}: {target}"
        assert not anchor or anchor in anchors(path), f"{name(page)}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_of_the_source_that_is_named_exists(page: Path) -> None:
    for path in PATH.findall(text_of(page)):
        assert "NAME" in path or (ROOT / path).exists(), f"{name(page)}: {path}"


def test_the_files_to_be_read_in_an_hour_are_fewer_than_1500_lines() -> None:
    _, _, section = text_of(DOCS / "explanation/architecture.md").partition("## Read it in an hour")
    files = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert 10 <= len(files) <= 12
    assert sum((ROOT / file).read_text(encoding="utf-8").count("\n") for file in files) < 1500


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=name)
def test_every_command_shown_exists_with_these_options(page: Path) -> None:
    for words in commands(page):
        command = COMMANDS[words[0]].commands.get(words[1])
        assert command is not None, f"{name(page)}: {' '.join(words)}"
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        given = {word.partition("=")[0] for word in words[2:] if word.startswith("-") and word != "-"}
        assert given <= known, f"{name(page)}: {' '.join(words)}: {given - known}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_shown_can_be_pasted_into_zsh(page: Path) -> None:
    """zsh refuses a pattern that matches nothing, and at the prompt takes `#` for a word."""
    blocks = [block for language, block in BLOCK.findall(text_of(page)) if language == "sh"]
    for line in (line for block in blocks for line in block.splitlines() if not line.startswith("#")):
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
        assert not re.search(r"[*?\[]| #", bare), f"{name(page)}: {line}"


@pytest.mark.parametrize("page", GENERATED)
def test_a_generated_page_is_what_the_script_writes(page: str) -> None:
    assert text_of(DOCS / "reference" / page) == GENERATED[page](), f"docs/reference/{page} is stale: make reference"


def test_every_page_is_in_the_site() -> None:
    site = text_of(ROOT / "zensical.toml")
    missing = [name(page) for page in DOCS.rglob("*.md") if page.relative_to(DOCS).as_posix() not in site]
    assert not missing


@pytest.mark.parametrize("notebook", sorted(DOCS.rglob("*.ipynb")), ids=name)
def test_a_notebook_is_kept_without_what_it_prints_and_run_by_make_docs(notebook: Path) -> None:
    cells = json.loads(text_of(notebook))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert f"jupyter execute {name(notebook)}\n" in text_of(ROOT / "Makefile")


def test_every_recipe_is_accepted() -> None:
    for path in sorted((ROOT / "configs").glob("*.toml")):
        assert configs_in(text_of(path), path.name)


@cache
def members() -> dict[str, set[str]]:
    """Names of methods and attributes, by the name of the class."""
    found: dict[str, set[str]] = {}
    for path in [path for package in ("loader", "pool") for path in (ROOT / package).rglob("*.py")]:
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.ClassDef):
                names = {inner.name for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)}
                names |= {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
                found.setdefault(node.name, set()).update(names)
    return found


@pytest.mark.parametrize("page", sorted((DOCS / "explanation").glob("*.md")), ids=name)
def test_every_method_that_is_named_exists(page: Path) -> None:
    for owner, member in re.findall(r"`([A-Z][a-z]\w+)\.(\w+)`", text_of(page)):
        assert member in members().get(owner, set()), f"{name(page)}: {owner}.{member}"


# --- tables that say what the code does ---


def test_every_exit_code_is_in_the_table() -> None:
    documented = {int(row[0]) for row in table("reference/exit-codes.md", "Exit codes of `pool`")}
    of_pool = {value for key, value in vars(exit_codes).items() if key.startswith("EXIT_")}
    signals = {exit_codes.EXIT_SIGNALLED + number for number in STOP_SIGNALS}
    assert documented == (of_pool - {exit_codes.EXIT_SIGNALLED}) | signals


def test_every_metric_is_in_the_table_with_its_curve() -> None:
    rows = table("reference/metrics.md", "metrics.jsonl")
    documented = {code(row[0])[0]: "".join(code(row[1])) for row in rows}
    of_the_tasks = {"validation_NAME": "validation/NAME", "train_NAME": "train/NAME"}
    assert documented == {"step": "", "time": "", **of_the_tasks, **TAGS}


LIBRARY = {"input should be greater than"}  # pydantic's words


def fragments(message: str) -> list[str]:
    """The literal pieces of a message that is shown with `...`, NAMES and N for what differs."""
    pieces = re.split(r"\.\.\.|\b[A-Z]{1,9}\b|[\"':;]|--set", message)
    bare = (piece.strip(" .,()=/") for piece in pieces)
    return [piece for piece in bare if len(piece.split()) >= 2 and piece not in LIBRARY]


@cache
def written_texts() -> str:
    """All string literals of the sources, those of C++ too; what is formatted into them is left out."""
    texts: list[str] = []
    for package in ("loader", "pool"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(text_of(path))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    texts.append("".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values))
        for path in [*(ROOT / package).rglob("*.cpp"), *(ROOT / package).rglob("*.h")]:
            texts += re.findall(r'"((?:[^"\\\n]|\\.)*)"', text_of(path))
    return "\n".join(texts)


def error_messages() -> list[str]:
    rows = re.findall(r"^\|(.*?)(?<!\\)\|", text_of(DOCS / "reference/errors.md"), re.MULTILINE)
    return [message for row in rows for message in code(row) if fragments(message)]


@pytest.mark.parametrize("message", error_messages())
def test_every_message_explained_is_one_that_the_code_writes(message: str) -> None:
    for fragment in fragments(message):
        assert fragment in written_texts(), f"docs/reference/errors.md: no source writes {fragment!r}"


# --- decisions ---

DECISIONS = {path.name[:3]: path for path in sorted((DOCS / "explanation/decisions").glob("[0-9]*.md"))}


def test_decisions_are_listed_with_their_titles_and_have_numbers_of_their_own() -> None:
    assert len(DECISIONS) == len(list((DOCS / "explanation/decisions").glob("[0-9]*.md")))
    listed = re.findall(
        r"^\| \[(\d{3})\]\(([^)]+)\) \| (.*) \|$", text_of(DOCS / "explanation/decisions/index.md"), re.M
    )
    titles = {number: text_of(path).splitlines()[0].removeprefix(f"# {number}: ") for number, path in DECISIONS.items()}
    assert listed == [(number, path.name, titles[number]) for number, path in DECISIONS.items()]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_decision_that_is_cited_exists(page: Path) -> None:
    assert set(DECISION.findall(text_of(page))) <= set(DECISIONS)


def test_a_decision_that_is_overruled_says_by_which() -> None:
    for number, path in DECISIONS.items():
        for line in text_of(path).splitlines()[1:]:
            if re.search(r"\b(superseded|amended) by\b", line, re.IGNORECASE):
                assert line.startswith("*"), f"{path.name}: at the top, in italics"
                assert all(other > number for other in re.findall(r"\[(\d{3})\]", line)), path.name
