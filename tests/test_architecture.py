"""The directions in which the project's parts may know each other, read from their imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROLES = ("planner", "coordinator", "feeder", "worker", "supervisor")
TORCH_FREE = (
    "loader.cli",
    "loader.sources",
    "loader.binpack_stream",
    "pool.cli",
    "pool.feeder.feeder",
    "pool.launch",
    "pool.protocol.channel",
    "pool.roles",
    "pool.shm.memory",
    "pool.supervisor.supervisor",
    "pool.tasks.nnue",
    "pool.tasks.nnue.cli",
    "pool.tasks.nnue.positions",
)


def modules(package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def imports(path: Path) -> Iterator[str]:
    """Every module named in an import, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: relative import"
            yield node.module


def test_the_loader_never_imports_the_pool() -> None:
    wrong = [
        (name, imported)
        for name, path in modules("loader")
        for imported in imports(path)
        if imported.startswith("pool")
    ]
    assert not wrong


def test_no_role_imports_another() -> None:
    wrong = []
    for role in ROLES:
        others = tuple(f"pool.{other}" for other in ROLES if other != role)
        wrong += [
            (name, imported)
            for name, path in modules(f"pool/{role}")
            for imported in imports(path)
            if imported.startswith(others)
        ]
    assert not wrong


def test_the_runtime_knows_no_chess() -> None:
    wrong = [
        (name, imported)
        for name, path in modules("pool")
        if not name.startswith(("pool.tasks.nnue", "pool.cli"))
        for imported in imports(path)
        if imported.startswith(("pool.tasks.nnue", "chess", "loader.binpack"))
    ]
    assert not wrong


def test_python_chess_is_needed_for_self_play_alone() -> None:
    """It is an extra, `sparsepool[generate]`."""
    users = {
        name
        for package in ("loader", "pool")
        for name, path in modules(package)
        for imported in imports(path)
        if imported.split(".")[0] == "chess"
    }
    assert users
    assert {name for name in users if not name.startswith("loader.selfplay.")} == set()


def test_no_pickle_anywhere() -> None:
    """I7."""
    wrong = []
    for package in ("loader", "pool"):
        for name, path in modules(package):
            wrong += [(name, imported) for imported in imports(path) if imported in ("pickle", "shelve", "dill")]
            text = path.read_text(encoding="utf-8")
            wrong += [(name, word) for word in ("torch.load", "torch.save", "allow_pickle=True") if word in text]
    assert not wrong


@pytest.mark.parametrize("module", TORCH_FREE)
def test_who_need_not_know_torch_does_not_import_it(module: str) -> None:
    """It costs a second at every start."""
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
