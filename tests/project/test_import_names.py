"""Names that may be imported are three packages: a user's own modules come first, and nothing else of ours is found."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

EDITABLE = any(file.name == "_sparsepool_checkout.pth" for file in importlib.metadata.files("sparsepool") or ())
INSTALLED = pytest.mark.skipif(not EDITABLE, reason="sparsepool is not installed as editable, or was before this test")


def python(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a user's folder, as the user does."""
    (folder / "script.py").write_text(code, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(folder / "script.py"), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


@INSTALLED
def test_an_editable_installation_puts_no_folder_of_the_checkout_on_the_path(tmp_path: Path) -> None:
    done = python(tmp_path, "import json, sys, loader, pool, sparsepool; print(json.dumps(sys.path))")
    path = [Path(entry) for entry in json.loads(done.stdout)]
    assert not [entry for entry in path if entry == ROOT or entry in ROOT.parents]
    for name in {"tests", "benchmarks", "configs", ROOT.name} - {"sparsepool"}:  # a clone may have that name
        done = python(tmp_path, f"import importlib.util; print(importlib.util.find_spec({name!r}))")
        assert done.stdout == "None\n", name


@INSTALLED
@pytest.mark.parametrize("name", ["loader", "pool", "sparsepool"])
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
def test_a_users_module_of_a_name_of_ours_is_his(name: str, file: str, tmp_path: Path) -> None:
    own = tmp_path / file.format(name)
    own.parent.mkdir(exist_ok=True)
    own.write_text("WHOSE = 'the user'\n", encoding="utf-8")
    assert python(tmp_path, f"import {name}; print({name}.WHOSE)").stdout == "the user\n"


@INSTALLED
def test_a_folder_of_a_name_of_ours_without_modules_is_not_in_the_way(tmp_path: Path) -> None:
    for name in ("loader", "pool", "sparsepool"):
        (tmp_path / name).mkdir()
    done = python(tmp_path, "import loader, pool, sparsepool; print(sparsepool.open)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["loader", "pool"])
@pytest.mark.parametrize("first", ["", "import loader, pool\n"])
def test_what_is_in_the_way_of_sparsepool_is_named_in_a_line(name: str, first: str, tmp_path: Path) -> None:
    own = tmp_path / f"{name}.py"
    own.write_text("", encoding="utf-8")
    code = f"import sys\nsys.path.append({str(ROOT)!r})\n{first}import sparsepool\n"
    done = python(tmp_path, code)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {own}: is in the way of the package {name!r}, which sparsepool needs")
