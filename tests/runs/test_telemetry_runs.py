"""Runs whose numbers go elsewhere: the weights are those of a run that tells nobody."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.runs import TOY, Ended, WholeRun, command

LONG = {**TOY, "train.steps": 300}


def test_prometheus_sees_a_run_and_changes_no_bit_of_it(tmp_path: Path, whole_run: WholeRun) -> None:
    address = f"127.0.0.1:{free_port()}"
    seen: list[str] = []
    line = command(tmp_path / "run", {**LONG, "telemetry.prometheus": address})
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                seen.append(answer.read().decode())
    assert process.returncode == 0
    assert any("sparsepool_step " in each for each in seen)
    assert Ended(tmp_path / "run", 0, "", "").digest() == whole_run(LONG).digest()
