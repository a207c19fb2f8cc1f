"""`make gpu-check` and `make gpu-bench` as they are called, on the fake GPU: `make gpu-dry`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pool.device.proof import PROBES, TRAINED, Setup, read_records
from tests.support.paths import ROOT

pytestmark = [pytest.mark.gpu_dry, pytest.mark.timeout(600), pytest.mark.usefixtures("fakegpu_is_built")]
FAKE = "tests.gpu.fake.fakegpu"
INSTALL = [sys.executable, "benchmarks/gpu/install.py", "--"]  # all is there, so nothing is installed


def output(*command: str, **environment: str) -> str:
    """`environment`: more than there is."""
    whole = [*INSTALL, *command]
    with_more = os.environ | environment
    done = subprocess.run(whole, cwd=ROOT, env=with_more, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_check_runs_to_its_end_and_notes_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-m", "gpu", "-k", "not stockfish", f"--device-module={FAKE}"]
    cache = str(tmp_path)
    last = output("-m", "pytest", *options, "tests/gpu", FAKEGPU="driver=7", XDG_CACHE_HOME=cache).splitlines()[-1]
    assert " passed" in last
    assert "failed" not in last
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    (record,) = read_records()
    assert (record.setup, record.problems) == (Setup("fake GPU", "7", mps=False), dict.fromkeys(PROBES, ""))


def test_the_benchmark_runs_to_its_end_and_every_line_has_a_figure() -> None:
    line = json.loads(output("-m", "benchmarks.gpu", "--dry", "--module", FAKE).splitlines()[-1])
    assert line["dry"]
    found = {each["what"]: each["found"] for each in line["lines"]}
    assert [what for what, words in found.items() if words.startswith(("failed", "skipped"))] == []
    assert {probe: found[probe] for probe in PROBES if probe != TRAINED} == dict.fromkeys({*PROBES} - {TRAINED}, "yes")
    for part in ("of its floor in bytes", "against EmbeddingBag", "against atomic additions"):
        assert any(what.startswith("sparse layer, ") and what.endswith(part) for what in found)
    assert {"host's time in backward, whole network", "the same, sparse tensor times table"} < found.keys()
    assert {f"pool with one worker, exchange {exchange}" for exchange in ("host", "device", "local")} < found.keys()
    assert {"1 x local, of the model", "2 x device all, of the model"} < found.keys()
    several = ("host", "device first", "device all")
    assert {f"2 cards, a batch each, exchange {exchange}" for exchange in several} < found.keys()
