"""deploy/Dockerfile, as far as it can be checked quickly. `make image-check` runs its steps."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from tests.project.image import DOCKERFILE, context, steps
from tests.support.paths import ROOT

STEPS = list(steps(DOCKERFILE.read_text(encoding="utf-8")))


def texts(name: str) -> list[str]:
    return [step.text for step in STEPS if step.name == name]


def test_all_that_is_copied_is_there_and_all_that_the_build_needs_is_copied() -> None:
    files = {path.as_posix() for path in context(ROOT)}
    copied = [word for text in texts("COPY") if not text.startswith("--from") for word in text.split()[:-1]]
    for word in copied:
        assert any(file == word or file.startswith(f"{word}/") for file in files), word
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sources = {*project["tool"]["scikit-build"]["wheel"]["packages"].values(), "CMakeLists.txt", "pyproject.toml"}
    sources |= {project["project"]["readme"], *project["project"]["license-files"]}
    assert [source for source in sources if not any(f"{source}/".startswith(f"{word}/") for word in copied)] == []


def test_nothing_that_was_built_in_the_checkout_gets_into_the_image(tmp_path: Path) -> None:
    for name in (
        "loader/_native.so",
        "pool/nn/__pycache__/x.pyc",
        "runs/x",
        "docs/x.md",
        "x.so",
        "pool/commands/main.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [path.as_posix() for path in context(tmp_path)] == ["pool/commands/main.py"]


def test_pool_is_the_process_that_gets_the_signals_and_is_not_root() -> None:
    (entry,) = texts("ENTRYPOINT")
    assert json.loads(entry) == ["pool"]
    assert texts("USER")[-1] != "root"


def test_python_and_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (python,) = (text.removeprefix("PYTHON=") for text in texts("ARG") if text.startswith("PYTHON="))
    least = project["requires-python"].removeprefix(">=")
    assert tuple(map(int, python.split("."))) >= tuple(map(int, least.split(".")))
    for extras in re.findall(r"/src\[([^]]*)]", " ".join(texts("RUN"))):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
