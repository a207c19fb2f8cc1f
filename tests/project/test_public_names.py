"""The names that code from outside may import: declared, described, cheap, and enough for a source and a task."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

import loader
import pool
import sparsepool
from tests.support.pages import DOCS, files, write_files
from tests.support.paths import ROOT
from tests.support.runs import Ended, elsewhere

PACKAGES = {"loader": loader, "pool": pool, "sparsepool": sparsepool}
NAMES = [(package, name) for package, module in PACKAGES.items() for name in module.__all__]
NAMES_PAGE = (DOCS / "reference/python-names.md").read_text(encoding="utf-8")
FILES = files(DOCS / "how-to/own-source.md")  # those of own-task.md included


def python(code: str) -> str:
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_each_name_is_there_and_what_a_type_checker_takes_it_for(package: str, name: str) -> None:
    found = getattr(PACKAGES[package], name)
    homes: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(str(PACKAGES[package].__file__)).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            homes |= {alias.name: node.module for alias in node.names}
    assert getattr(importlib.import_module(homes[name]), name) is found
    assert homes.keys() - {"annotations", "TYPE_CHECKING", "Any"} == set(PACKAGES[package].__all__)
    assert name in dir(PACKAGES[package])


@pytest.mark.parametrize(
    ("package", "name"), [("loader", "LinesSource"), ("pool", "Sections"), ("sparsepool", "stream_of")]
)
def test_another_name_is_an_import_error(package: str, name: str) -> None:
    with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
        exec(f"from {package} import {name}")


def test_the_page_describes_exactly_these_names() -> None:
    rows = [line.split("|")[1] for line in NAMES_PAGE.splitlines() if line.startswith("| `")]
    described = [tuple(name.split(".")) for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert sorted(described) == sorted(NAMES)


def test_importing_the_packages_costs_nothing() -> None:
    heavy = python(
        "import sys, loader, pool, sparsepool\n"
        "print(*{'torch', 'numpy', 'pydantic', 'zmq', 'typer', 'loader._native', 'pool._native'} & set(sys.modules))"
    )
    assert heavy == ""


def test_no_name_of_the_loader_imports_torch() -> None:
    names = ", ".join(loader.__all__)
    assert python(f"import sys; from loader import {names}; print('torch' in sys.modules)") == "False"


# --- the source and the task of the how-to pages ---


def imports(source: str) -> list[tuple[str, str]]:
    """Modules and names."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(str(node.module), alias.name) for alias in node.names]
    return found


def test_they_import_no_other_names_of_ours() -> None:
    ours = {
        (module, name)
        for file, source in FILES.items()
        if file.endswith(".py")
        for module, name in imports(source)
        if module.partition(".")[0] in PACKAGES
    }
    assert ours
    assert ours <= set(NAMES)


def call(folder: Path, *arguments: str) -> Ended:
    done = subprocess.run(
        [sys.executable, "-m", "pool", *arguments],
        cwd=folder,
        env=elsewhere(),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    return Ended(folder / "runs/text", done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns the folder with the files that the pages show, and the data that they make."""
    write_files(DOCS / "how-to/own-source.md", tmp_path)
    subprocess.run([sys.executable, "make_data.py"], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


@pytest.mark.runs
def test_they_learn_and_export_and_do_not_depend_on_the_workers(folder: Path) -> None:
    ended = call(folder, "train", "text.toml", "--set", "pool.threads=1")
    assert ended.code == 0, ended.err
    losses = [entry["loss"] for entry in ended.metrics()]
    assert len(losses) == 40
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    exported = call(folder, "export", "runs/text", "-o", "prices.safetensors", "--task", "prices")
    assert exported.code == 0, exported.err
    with safe_open(folder / "prices.safetensors", framework="np") as file:
        assert file.metadata() == {"description": "Trained with sparsepool."}
        assert file.get_tensor("first.weight").shape == (1000, 32)
    one = call(
        folder, "train", "text.toml", "--set", "run.dir=one", "--set", "pool.devices=cpu", "--set", "pool.threads=1"
    )
    assert one.code == 0, one.err
    assert Ended(folder / "one", 0, "", "").digest() == ended.digest()


@pytest.mark.runs
def test_a_line_that_is_damaged_is_named(folder: Path) -> None:
    (folder / "prices.txt").write_text("0.1 2 3\n0.2 x\n", encoding="utf-8")
    ended = call(folder, "train", "text.toml")
    assert ended.code == 65
    assert ended.err.startswith("pool: prices.txt: offset 8: ")
