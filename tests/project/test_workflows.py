"""GitHub's workflows, as far as they can be tested here: what they run is there, and nothing is published by itself."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

FOLDER = ROOT / ".github/workflows"
WORKFLOWS: dict[str, Any] = {
    path.stem: yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader) for path in FOLDER.glob("*.yml")
}
JOBS = {f"{name}/{job}": value for name, workflow in WORKFLOWS.items() for job, value in workflow["jobs"].items()}
CI = (ROOT / ".ci/run").read_text(encoding="utf-8")
PARTS = {part: targets.split() for part, targets in re.findall(r'^ +(\w+)\) targets="([^"]*)"', CI, re.MULTILINE)}


@pytest.mark.parametrize("job", JOBS)
def test_a_job_has_a_limit_and_pinned_actions(job: str) -> None:
    steps = JOBS[job]["steps"]
    assert 0 < int(JOBS[job]["timeout-minutes"]) <= 180
    assert all(("uses" in step) != ("run" in step) for step in steps)
    for step in steps:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", f"a@{'0' * 40}")), "a tag may move"


def test_one_action_has_one_version() -> None:
    lines = [line.strip(" -") for path in FOLDER.glob("*.yml") for line in path.read_text("utf-8").splitlines()]
    uses = {line for line in lines if line.startswith("uses: ")}
    assert all(re.search(r"  # v\d+\.\d+\.\d+$", line) for line in uses)
    assert len({line.partition("@")[0] for line in uses}) == len(uses)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_and_a_job_that_may_more_publishes(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {"contents": "read"}
    for job, value in WORKFLOWS[name]["jobs"].items():
        assert ("permissions" in value) == (job == "publish")


def test_nothing_is_published_before_the_maintainer_says_so() -> None:
    for name, variable in {"wheels/publish": "PUBLISH_WHEELS", "site/publish": "PUBLISH_SITE"}.items():
        assert f"vars.{variable} == 'true'" in JOBS[name]["if"]
        assert f"`{variable}`" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {name for name in JOBS if name.endswith("/publish")} == {"wheels/publish", "site/publish"}


def test_ci_runs_targets_that_exist_all_of_them_on_one_python() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {target for part in PARTS.values() for target in part} <= targets
    runs = JOBS["ci/ci"]["strategy"]["matrix"]["include"]
    assert [run["what"] for run in runs].count("all") == 1
    assert {run["what"] for run in runs} == {"all", "install", "units"}
    assert JOBS["ci/ci"]["steps"][-1]["run"] == ".ci/run ${{ matrix.what }}"
    assert JOBS["site/site"]["steps"][1]["run"] == ".ci/run docs"


def test_ci_refuses_a_part_that_it_does_not_have() -> None:
    done = subprocess.run([ROOT / ".ci/run", "other"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"usage: .ci/run [{'|'.join(PARTS)}]\n")


def test_the_site_that_is_published_is_the_one_that_make_docs_builds() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    (upload,) = (step for step in JOBS["site/site"]["steps"] if "pages" in step.get("uses", ""))
    assert upload["with"]["path"] == site["site_dir"]
