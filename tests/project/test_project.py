"""The files around the code agree: versions, workflows, hooks, the targets that the pages for contributors name."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tests.support.paths import ROOT


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))


def test_one_version_everywhere() -> None:
    settings = tomllib.loads(text_of("pyproject.toml"))["tool"]["scikit-build"]
    assert f"\nversion: {settings['metadata']['version']['base']}\n" in text_of("CITATION.cff")


def test_the_workflow_runs_what_ci_runs_and_says_that_it_has_no_shared_folder() -> None:
    workflow = text_of(".github/workflows/ci.yml")
    assert "- run: .ci/run ${{ matrix.what }}\n" in workflow
    assert "WITHOUT_SHARED" in workflow
    assert "WITHOUT_SHARED" in text_of("docs/how-to/test.md")


def test_wheels_are_built_for_every_python_that_is_tested() -> None:
    builds = tomllib.loads(text_of("pyproject.toml"))["tool"]["cibuildwheel"]["build"]
    built = {re.sub(r"cp3(\d+)-.*", r"3.\1", build) for build in builds}
    assert built == set(re.findall(r'"(3\.\d+)"', text_of(".github/workflows/ci.yml")))


def test_every_target_that_the_pages_name_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {target for page in pages for target in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))}
    assert named
    assert named <= targets()


def test_make_alone_lists_every_target_with_what_it_does() -> None:
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert dict(line.split(maxsplit=1) for line in done.stdout.splitlines()).keys() == targets()


def test_every_target_is_described_to_contributors() -> None:
    described = set(re.findall(r"[a-z][\w-]*", text_of("CONTRIBUTING.md") + text_of("docs/how-to/test.md")))
    assert targets() - described == set()


def test_hooks_fetch_nothing() -> None:
    hooks = text_of(".pre-commit-config.yaml")
    assert re.findall(r"repo: (.*)", hooks) == ["local"]
    assert set(re.findall(r"language: (.*)", hooks)) <= {"system", "pygrep"}


def test_no_file_of_a_run_or_a_build_is_in_the_repository() -> None:
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    tops = {name for name in names if "/" not in name}
    known = r"\.?[\w-]+\.(md|toml|yml|yaml|txt|cff)|\.editorconfig|\.gitignore|\.clang-(format|tidy)|LICENSE|Makefile"
    assert {name for name in tops if not re.fullmatch(known, name)} == set()
