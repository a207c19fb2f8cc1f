"""The version of a build names its commit, also in an sdist, in a container, and where there is no git."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

_spec = importlib.util.spec_from_file_location("project_version", ROOT / "deploy/project_version.py")
assert _spec is not None
assert _spec.loader is not None
project_version = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(project_version)


def git(folder: Path, *words: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *names, "-C", str(folder), *words], check=True, capture_output=True, env=environment)


def commit(folder: Path, text: str) -> None:
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-m", text)


def version_of(folder: Path, **environment: str) -> str:
    return str(project_version.version_of(folder, "1.2.0", environment))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init")
    commit(folder, "one")
    return folder


def test_every_commit_has_a_version_of_its_own(checkout: Path) -> None:
    first = version_of(checkout)
    assert re.fullmatch(r"1\.2\.0\.dev1\+g[0-9a-f]{8}", first)
    commit(checkout, "two")
    second = version_of(checkout)
    assert re.fullmatch(r"1\.2\.0\.dev2\+g[0-9a-f]{8}", second)
    assert first[-8:] != second[-8:]
    (checkout / "file").write_text("changed")
    assert version_of(checkout) == f"{second}.dirty"


def test_the_tag_of_the_release_is_the_release(checkout: Path) -> None:
    git(checkout, "tag", "v1.1.0")
    assert version_of(checkout).startswith("1.2.0.dev1+g")
    git(checkout, "tag", "v1.2.0")
    assert version_of(checkout) == "1.2.0"
    (checkout / "file").write_text("changed")
    assert version_of(checkout).endswith(".dirty")


def test_without_git_the_sdist_or_the_environment_says_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = checkout / "vendored"
    inside.mkdir()
    assert version_of(inside) == "1.2.0.dev0"  # the repository is another project's
    (inside / "PKG-INFO").write_text("Metadata-Version: 2.2\nName: sparsepool\nVersion: 1.2.0.dev7+g01234567\n\nText")
    assert version_of(inside) == "1.2.0.dev7+g01234567"
    shutil.rmtree(checkout / ".git")
    assert version_of(checkout) == "1.2.0.dev0"
    assert version_of(checkout, SPARSEPOOL_VERSION="1.2.0.dev9+gabc") == "1.2.0.dev9+gabc"
    with pytest.raises(ValueError, match="SPARSEPOOL_VERSION: 'latest' is no version"):
        version_of(checkout, SPARSEPOOL_VERSION="latest")
    monkeypatch.setenv("PATH", "/nowhere")
    assert version_of(inside) == "1.2.0.dev7+g01234567"
    assert version_of(checkout) == "1.2.0.dev0"
