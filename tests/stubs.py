"""The stubs of the native modules, made by nanobind's generator: python -m tests.stubs writes them anew."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from tests.support.paths import ROOT

MODULES = ("loader._native", "pool._native")


def path_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.pyi"


def generated(module: str) -> str:
    """The text of the module's stub, formatted as the rest of the code."""
    from nanobind.stubgen import StubGen

    stub = StubGen(import_module(module))
    stub.put(import_module(module))
    return formatted(stub.get())


def formatted(text: str) -> str:
    for command in (["check", "--fix", "--quiet", "--exit-zero", "--select", "I,D200,D212"], ["format", "--quiet"]):
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", "stub.pyi", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = run.stdout
    return text


if __name__ == "__main__":
    for module in MODULES:
        path_of(module).write_text(generated(module), encoding="utf-8")
