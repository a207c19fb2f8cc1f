#!/usr/bin/env python3
"""The version of a build: of the release alone, or with the number of the commit and its name. `pyproject.toml` names
this file as the provider of the version; as a program it prints it.

    0.1.0                          the commit with the tag v0.1.0
    0.1.0.dev412+g2b7ab6f5         the 412th commit, 2b7ab6f5, on the way to 0.1.0
    0.1.0.dev412+g2b7ab6f5.dirty   the same, with changes that are not committed
    0.1.0.dev0                     nothing says which commit this is

An sdist holds its version. Where there is neither that nor git, as in a container, SPARSEPOOL_VERSION in the
environment says it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "SPARSEPOOL_VERSION"
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")


def dynamic_metadata(field: str, settings: Mapping[str, Any]) -> str:
    """Returns the version, as scikit-build-core asks its providers for it; `settings` has the release as `base`."""
    assert field == "version"
    return version_of(ROOT, settings["base"], os.environ)


def version_of(root: Path, base: str, environment: Mapping[str, str]) -> str:
    """Returns the version of the sources in a folder, on the way to the release `base`. Raises ValueError for a
    variable that holds no version."""
    given = environment.get(VARIABLE, "")
    if given:
        if _VERSION.fullmatch(given) is None:
            raise ValueError(f"{VARIABLE}: {given!r} is no version, such as {base}.dev412+g2b7ab6f5")
        return given
    return _version_of_sdist(root) or _version_by_git(root, base) or f"{base}.dev0"


def _version_of_sdist(root: Path) -> str | None:
    try:
        information = (root / "PKG-INFO").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^Version: (\S+)$", information, re.MULTILINE)
    return None if match is None else match[1]


def _version_by_git(root: Path, base: str) -> str | None:
    """Returns None where there is no git, no commit, or another project's repository around the sources."""
    top = _git(root, "rev-parse", "--show-toplevel")
    commit = _git(root, "rev-parse", "--short=8", "HEAD")
    count = _git(root, "rev-list", "--count", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    tags = _git(root, "tag", "--points-at", "HEAD")
    if top is None or commit is None or count is None or Path(top).resolve() != root.resolve():
        return None
    if not changed and f"v{base}" in (tags or "").split():
        return base
    return f"{base}.dev{count}+g{commit}{'.dirty' if changed else ''}"


def _git(root: Path, *words: str) -> str | None:
    """Returns what git prints; None if it fails. Sources of another user, as in a container, are git's to read, too."""
    try:
        done = subprocess.run(
            ["git", "-c", f"safe.directory={root}", "-C", str(root), *words],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    sys.stdout.write(f"{dynamic_metadata('version', settings['metadata']['version'])}\n")
