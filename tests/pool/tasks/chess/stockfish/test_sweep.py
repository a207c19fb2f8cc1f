"""From a sweep to an engine's network: the best member is exported, and evaluates as its checkpoint does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pool.commands.main import main
from tests.chaos.oracle import CHESS
from tests.support.runs import toml
from tests.support.warm import call_pool

FEN = "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3"


@pytest.mark.runs
def test_the_best_of_a_sweep_is_exported_and_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    settings = {key: value for key, value in CHESS.items() if not key.startswith("testing.")}
    settings |= {"run.dir": str(run), "train.steps": 3, "train.checkpoint_every": 0, "pool.devices": ["cpu"]}
    settings |= {"data.validation": settings["data.train"], "train.validate_every": 3, "train.validation_batches": 1}
    (tmp_path / "x.toml").write_text(toml(settings))
    words = ["sweep", str(tmp_path / "x.toml"), "--vary", "optimizer.args.lr=1e-4,3e-3", "--seeds", "2", "--json"]
    done = call_pool(*words)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    losses = [row["validation_loss"] for row in found]
    assert losses == sorted(losses)
    assert len(set(losses)) == 4

    def value(net: Path, *member: str) -> int:
        assert main(["eval", str(net), "--fen", FEN, "--json", *member]) == 0
        value: int = json.loads(capsys.readouterr().out)["value"]
        return value

    net = tmp_path / "best.nnue"
    assert main(["export", str(run), "--member", "best", "-o", str(net)]) == 0
    capsys.readouterr()
    values = [value(run, "--member", str(m)) for m in range(4)]
    assert value(net) == value(run, "--member", "best") == values[found[0]["member"]]
    assert len(set(values)) > 1, "the members are different networks"
