"""Runs the steps of deploy/Dockerfile without docker, then the image's entry point: `make image-check`, as root.

Each stage is an overlay over this machine's own files, which stand in for the base image, so nothing here changes. In a
mount namespace of its own: what is mounted goes with the process.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shlex
import shutil
import string
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT

DOCKERFILE = ROOT / "deploy/Dockerfile"
IGNORE = ROOT / "deploy/Dockerfile.dockerignore"


@dataclass(frozen=True)
class Step:
    """One instruction."""

    name: str
    text: str


def steps(dockerfile: str) -> Iterator[Step]:
    """The instructions, continued lines joined, comments left out."""
    lines = [line for line in dockerfile.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, text = line.partition(" ")
        yield Step(name, text.strip())


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Returns whether a path of the context stays out: the last pattern for it or a folder above it decides."""
    parts = path.split("/")
    names = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    ignored = False
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        if any(fnmatch.fnmatchcase(f"/{name}", f"/{bare}".replace("/**/", "*/")) for name in names):
            ignored = not pattern.startswith("!")
    return ignored


def ignore_patterns() -> list[str]:
    lines = IGNORE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def context(folder: Path) -> Iterator[Path]:
    """Yields the files that docker would send, relative to `folder`."""
    patterns = ignore_patterns()
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", ".venv", "build", "runs")]
        for name in files:
            path = (Path(top) / name).relative_to(folder)
            if not is_ignored(path.as_posix(), patterns):
                yield path


@dataclass
class Stage:
    """A file system in the making, and what the next step runs with."""

    root: Path
    environment: dict[str, str]
    folder: str = "/"
    user: str = "root"
    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def run(self, command: list[str]) -> None:
        """Runs a command in this stage's file system, as its user."""
        words = ["chroot", f"--userspec={self.user}", str(self.root), "env", "-C", self.folder, *command]
        subprocess.run(words, check=True, env=self.environment)


def overlay(base: Path) -> Path:
    """A copy-on-write view of this machine's files."""
    root, upper, work = base / "root", base / "upper", base / "work"
    for path in (root, upper, work):
        path.mkdir(parents=True)
    options = f"lowerdir=/,upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, root], check=True)
    for name in ("proc", "dev"):
        subprocess.run(["mount", "--rbind", f"/{name}", root / name], check=True)
    (root / "root").chmod(0o755)  # the interpreter may be there
    return root


class Build:
    """Carries the steps out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stages: dict[str, Stage] = {}
        self._arguments: dict[str, str] = {}
        self._stage: Stage | None = None

    @property
    def stage(self) -> Stage:
        assert self._stage is not None, "FROM comes first"
        return self._stage

    def do(self, step: Step) -> None:
        getattr(self, f"_{step.name.lower()}")(step.text)

    def _expand(self, text: str) -> str:
        values = {**self._arguments, **(self._stage.environment if self._stage else {})}
        return string.Template(text).safe_substitute(values)

    def _arg(self, text: str) -> None:
        name, _, value = text.partition("=")
        self._arguments[name] = os.environ.get(name, value)
        if self._stage is not None and self._arguments[name]:
            self._stage.environment[name] = self._arguments[name]

    def _from(self, text: str) -> None:
        image, _, name = self._expand(text).partition(" AS ")
        name = name or "final"
        print(f"from {image}: this machine's files stand in for it", flush=True)
        self._stage = Stage(overlay(self._folder / name), {k: v for k, v in os.environ.items() if k != "HOME"})
        self._stages[name] = self._stage

    def _run(self, text: str) -> None:
        print(f"run {' '.join(text.split())}", flush=True)
        self.stage.run(["sh", "-c", text])

    def _copy(self, text: str) -> None:
        print(f"copy {text}", flush=True)
        words = shlex.split(self._expand(text))
        if words[0].startswith("--from="):
            source = self._stages[words.pop(0).removeprefix("--from=")].root / words[0].lstrip("/")
            subprocess.run(["cp", "-a", source, self.stage.root / words[1].lstrip("/")], check=True)
            return
        *sources, target = words
        for source_name in sources:
            files = [path for path in context(ROOT) if path.is_relative_to(source_name)]
            assert files, f"COPY {source_name}: not in the context"
            for path in files:
                inside = path.name if path == Path(source_name) else path.relative_to(source_name)
                goal = self.stage.root / target.lstrip("/") / inside
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, goal)

    def _env(self, text: str) -> None:
        name, _, value = self._expand(text).partition("=")
        self.stage.environment[name] = value

    def _user(self, text: str) -> None:
        self.stage.user = text

    def _workdir(self, text: str) -> None:
        (self.stage.root / text.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.stage.folder = text

    def _entrypoint(self, text: str) -> None:
        self.stage.entry = json.loads(text)

    def _cmd(self, text: str) -> None:
        self.stage.command = json.loads(text)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)  # an overlay can't lie on an overlay
        build = Build(folder)
        try:
            for step in steps(DOCKERFILE.read_text(encoding="utf-8")):
                build.do(step)
            stage = build.stage
            stage.run([*stage.entry, *stage.command])
            stage.run([*stage.entry, "configs", "demo", "-o", "demo.toml"])
            stage.run([*stage.entry, "train", "demo.toml", "--set=model.l1=32", "--set=train.steps=4"])
        finally:
            subprocess.run(["umount", "--recursive", "--lazy", folder], check=True)
    print("image-check: every step of the Dockerfile ran, and the image trains")


if __name__ == "__main__":
    main()
