"""A user's folder may hold files of any name: only what a setting names is imported from it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs import TOY, Ended, command, elsewhere

LIBRARIES = ("loader", "torch", "numpy", "zmq", "typer", "rich", "pydantic", "msgpack", "safetensors", "tensorboard")
OTHERS = ("tensorflow", "psutil", "json", "queue", "tomllib", "click", "chess", "tests_support")
PYTHONS_OWN = ("pool", "types", "re", "runpy", "signal")  # what `python -m` itself imports, with this folder first

TASK = """
from my_model import ToyTask
from tests.support.toy import LossConfig, ModelConfig
def create_task(model, loss):
    import my_late_import
    return ToyTask(model, loss)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's, with a task and an optimizer of his own beside files that may not be imported."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in (*LIBRARIES, *OTHERS):
        (folder / f"{name}.py").write_text(f"raise SystemExit('imported {name}.py')\n", encoding="utf-8")
    (folder / "my_task.py").write_text(TASK, encoding="utf-8")
    (folder / "my_model.py").write_text("from tests.support.toy_model import ToyTask\n", encoding="utf-8")
    (folder / "my_late_import.py").write_text("", encoding="utf-8")
    (folder / "my_optimizer.py").write_text("from torch.optim import Adam as Mine\n", encoding="utf-8")
    return folder


def call(folder: Path, words: list[str]) -> Ended:
    done = subprocess.run(words, cwd=folder, env=elsewhere(), capture_output=True, text=True, check=False, timeout=110)
    return Ended(folder, done.returncode, done.stdout, done.stderr)


SETTINGS = {**TOY, "task": "my_task", "optimizer.name": "my_optimizer.Mine", "train.steps": 2}


@pytest.mark.runs
def test_the_installed_command_works_beside_files_of_any_name(folder: Path, tmp_path: Path) -> None:
    for name in PYTHONS_OWN:
        (folder / f"{name}.py").write_text(f"raise SystemExit('imported {name}.py')\n", encoding="utf-8")
    script = tmp_path / "bin" / "pool"
    script.parent.mkdir()
    script.write_text("import sys\nfrom pool.__main__ import main\nsys.exit(main())\n", encoding="utf-8")
    ended = call(folder, [sys.executable, str(script), *command(tmp_path / "run", SETTINGS)[3:]])
    assert (ended.code, ended.err) == (0, ""), ended.out


@pytest.mark.runs
def test_so_does_python_m_pool(folder: Path, tmp_path: Path) -> None:
    """Python itself sets the limit: what `python -m` imports before us is not ours to choose."""
    ended = call(folder, command(tmp_path / "run", SETTINGS, name="check"))
    assert (ended.code, ended.err) == (0, "")
    assert "MemAvailable" in ended.out


@pytest.mark.parametrize("arguments", [["pool", "settings", "--task", "my_task"], ["loader", "--help"]])
def test_and_the_commands_that_start_nothing(arguments: list[str], folder: Path) -> None:
    (folder / f"{arguments[0]}.py").unlink(missing_ok=True)  # or `python -m` means that
    ended = call(folder, [sys.executable, "-m", *arguments])
    assert (ended.code, ended.err) == (0, "")


def test_a_module_of_a_librarys_name_is_said_to_be_the_librarys(folder: Path) -> None:
    ended = call(folder, [sys.executable, "-m", "pool", "settings", "--task", "numpy"])
    assert ended.code == 2
    assert "task: module 'numpy' (" in ended.err
    assert "site-packages/numpy/__init__.py): has no ModelConfig" in ended.err


def test_nothing_but_the_packages_lands_at_the_top_level() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert config["tool"]["scikit-build"]["wheel"]["packages"].keys() == {
        "loader",
        "pool",
        "pool/configs",
        "sparsepool",
    }
    files = importlib.metadata.files("sparsepool") or []
    top = {file.parts[0] for file in files if file.parts[0] != ".."}
    assert {
        name
        for name in top
        if not name.startswith(("sparsepool-", "_editable_", "_sparsepool_checkout", "__pycache__"))
    } <= {
        "loader",
        "pool",
        "sparsepool",
    }
