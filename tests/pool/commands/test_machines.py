"""`pool machines`: its key, and `pool train` on several machines, which is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.commands.main import main
from pool.machines.key import read_key
from tests.support.runs import TOY, command


def test_a_new_key_needs_no_config_and_replaces_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "run.key"
    assert main(["machines", "--new-key", str(key)]) == 0
    made = read_key(key)
    assert main(["machines", "--new-key", str(key)]) == 2
    assert capsys.readouterr().err == f"pool: {key}: is there already; remove it to make another key\n"
    assert read_key(key) == made


def test_machines_of_this_one_need_their_number_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = command(tmp_path / "run", TOY, "--local", name="machines")[3:]
    for more in ([], ["--machines", "2", "--first", "a"]):
        assert main([*line, *more]) == 2
        assert capsys.readouterr().err.startswith("pool: --local: goes with --machines, and with none of --machine,")


def test_a_run_of_one_machine_that_srun_starts_on_two_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "2")
    assert main(command(tmp_path / "run", TOY)[3:]) == 2
    assert capsys.readouterr().err.startswith("pool: SLURM_STEP_NUM_NODES is 2: ")
    assert not (tmp_path / "run").exists()
