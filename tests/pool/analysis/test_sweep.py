"""`pool sweep`: every combination is a member, the table has the best first, and what can't be tried is one line."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from pool.analysis.sweep import SEED, Variation, build_sweep_config, read_result, result_table, summarize_members
from pool.checkpoint.validations import Goal, Validation
from pool.commands.main import main
from pool.commands.tables import format_table
from pool.config.ensemble import MAX_MEMBERS
from pool.config.load import load_config
from pool.errors import ConfigError
from pool.supervisor.summary import sweep_command
from tests.runs.test_clicks_runs import CLICKS
from tests.support.checkpoints import save
from tests.support.crafted import reseal
from tests.support.ensembles import digest
from tests.support.runs import run_well, toml
from tests.support.warm import call_pool

LR = "optimizer.args.lr"


def config_of(folder: Path, *vary: str, seeds: int = 1, text: str = "run.seed = 7\n") -> Any:
    path = folder / "x.toml"
    path.write_text(text)
    return build_sweep_config(path, ["train.steps=5"], [Variation.parse(each) for each in vary], seeds)


def test_a_member_for_each_combination_is_what_set_would_make_of_the_run(tmp_path: Path) -> None:
    config = config_of(tmp_path, f"{LR}=1e-3,3e-3", "loss.lambda_end=0.5, 1.0", seeds=2)
    expected = [
        load_config(
            tmp_path / "x.toml",
            ["train.steps=5", f"{LR}={rate}", f"loss.lambda_end={end}", f"run.model_seed={seed}"],
        )
        for rate in (1e-3, 3e-3)
        for end in (0.5, 1.0)
        for seed in (7, 8)
    ]
    assert [member.model_dump() for member in config.members] == [alone.model_dump() for alone in expected]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1e-3,2", [1e-3, 2]),
        ("a.b=[1, 2], [3]", [[1, 2], [3]]),
        ('a.b="x,y","z"', ["x,y", "z"]),
        ("a.b=pool.optim.Adam,torch.optim.SGD", ["pool.optim.Adam", "torch.optim.SGD"]),
        ("a.b={x = 1}, {}", [{"x": 1}, {}]),
        ("a.b=true,1", [True, 1]),
        ("a.b=5", [5]),
    ],
)
def test_values_are_toml_or_text(text: str, values: list[Any]) -> None:
    variation = Variation.parse(text)
    assert (variation.key, [change.value for change in variation.values]) == ("a.b", values)


@pytest.mark.parametrize(
    ("vary", "complaint"),
    [
        (["data.batch_size=1,2"], "--vary data.batch_size: can't differ between members, which share one stream"),
        (["train.steps=1,2"], "--vary train.steps: can't differ"),
        (["run.model_sed=1,2"], "--vary run.model_sed: can't differ between members, which share one stream"),
        (["optimiser.args.lr=1,2"], "--vary optimiser.args.lr: unknown key; members may differ in keys of optimizer, "),
        (["optimiser.args.lr=1,2"], "; did you mean optimizer?"),
        (["optimizer.lr=1,2"], "--vary optimizer.lr: unknown key; allowed here: name, args"),
        (["loss.lamda_end=0.5,1"], "--vary loss.lamda_end: unknown key; allowed here: "),
        (["loss.lamda_end=0.5,1"], "; did you mean lambda_end?"),
        (["loss.lambda_end=0.5,2"], "--vary loss.lambda_end: input should be less than or equal to 1"),
        ([f"{LR}=1e-3x,1"], f"--vary {LR}=1e-3x: not a TOML value; text needs quotes here: --vary '{LR}=\"1e-3x\"'"),
        ([LR], f"--vary {LR}: expected section.key=value,value,..."),
        ([f"{LR}="], "expected section.key=value,value,..."),
        ([f"{LR}=1,,2"], "expected section.key=value,value,..."),
        (["optimizer..lr=1,2"], "expected section.key=value,value,..."),
        ([f"{LR}=1,1"], f"--vary {LR}=1,1: a value is given twice"),
        ([f"{LR}=1,2", f"{LR}=3"], f"--vary {LR}: is given twice"),
        (["optimizer.args={},{lr = 1}", f"{LR}=3"], f"--vary {LR}: is a part of optimizer.args"),
        ([f"{SEED}=1,2"], f"--vary {SEED}: the seeds are varied by --seeds"),
        ([f"{LR}={','.join(map(str, range(600)))}"], f"--vary: 1200 combinations; at most {MAX_MEMBERS} networks"),
    ],
)
def test_what_can_not_be_varied_is_one_line(vary: list[str], complaint: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "x.toml").write_text("run.seed = 7\n")
    words = [word for each in vary for word in ("--vary", each)]
    assert main(["sweep", str(tmp_path / "x.toml"), *words, "--seeds", "2"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line
    assert "ensemble.member" not in line


def test_a_table_takes_the_place_of_the_runs(tmp_path: Path) -> None:
    text = 'optimizer.name = "torch.optim.SGD"\noptimizer.args = { lr = 1.0, momentum = 0.9 }\n'
    config = config_of(tmp_path, "optimizer.args={lr = 0.5},{lr = 0.1, nesterov = true}", text=text)
    assert [member.optimizer.args for member in config.members] == [{"lr": 0.5}, {"lr": 0.1, "nesterov": True}]


def test_seeds_alone_make_members(tmp_path: Path) -> None:
    assert [member.model_seed for member in config_of(tmp_path, seeds=3).members] == [7, 8, 9]
    with pytest.raises(ConfigError, match=r"nothing is varied: give --vary KEY=VALUE,VALUE,..., or --seeds N"):
        config_of(tmp_path)


def test_a_config_with_members_is_for_train(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ensemble: a sweep makes the members; leave it out, or train it with pool"):
        config_of(tmp_path, f"{LR}=1,2", text="ensemble.members = 2\n")


def test_the_run_goes_on_with_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pool"])
    line = sweep_command(Path("x.toml"), ["--vary", "c.d=1,2", "--seeds", "2"], ["a.b=1"])
    assert line == "pool sweep x.toml --vary c.d=1,2 --seeds 2 --set a.b=1 --resume"


# --- the table ---

TREE = {
    "task": "clicks",
    "model": {"fields": {"user": 5}},
    "ensemble": {"member": [{"optimizer": {"args": {"lr": rate}}} for rate in (0.1, 0.2, 0.4)]},
}


def validated(*aucs: float) -> list[Validation]:
    return [Validation(1, 1 - auc, {"auc": auc}) for auc in aucs]


def test_the_best_comes_first_and_what_is_no_number_last(tmp_path: Path) -> None:
    save(tmp_path / "run", TREE, validations=validated(0.7, math.nan, 0.8), goal=Goal("auc", "max"))
    reseal(tmp_path / "run/checkpoints/step-000000001", lambda tree: tree["members"][1].update(frozen_at=1, unused=0))
    found = read_result(tmp_path / "run")
    data = summarize_members(found, [LR])
    assert [(row["place"], row["member"], row["config"]) for row in data] == [
        (1, 2, {LR: 0.4}),
        (2, 0, {LR: 0.1}),
        (3, 1, {LR: 0.2}),
    ]
    assert [row["validation_auc"] for row in data] == [0.8, 0.7, None]
    assert [row["frozen_at"] for row in data] == [None, None, 1]
    assert (
        format_table(result_table(found, [LR])).split()
        == (
            f"member {LR} validation loss validation auc step frozen at diverged at "
            "2 0.4 0.200000 0.800000 1 0 0.1 0.300000 0.700000 1 1 0.2 nan nan 1 1 1"
        ).split()
    )
    assert found.note == (
        "ordered by the best validation auc of each, train.best_metric; last and no candidates: member 1 (diverged at "
        "step 1)"
    )


def test_what_has_diverged_is_last_whatever_its_metric_is(tmp_path: Path) -> None:
    save(tmp_path / "run", TREE, validations=validated(0.7, 0.75, 0.8), goal=Goal("auc", "max"))

    def later(tree: dict[str, Any]) -> None:
        """A second validation, in which two members have the best auc and losses far beyond those of the start."""
        for member, loss in zip(tree["validations"]["members"], (0.2, 1e6, 7.0), strict=True):
            member.update(newest={"step": 3, "loss": loss, "metrics": {"auc": 0.9}})
        for member in (1, 2):
            tree["validations"]["members"][member]["diverged_at"] = 3
        tree["step"] = 3

    reseal(tmp_path / "run/checkpoints/step-000000001", later)
    found = read_result(tmp_path / "run")
    data = summarize_members(found, [LR])
    assert [(row["member"], row["diverged_at"], row["step"]) for row in data] == [(0, None, 1), (1, 3, 3), (2, 3, 3)]
    assert "member 1 (diverged at step 3), member 2 (diverged at step 3)" in found.note


def test_each_member_stands_with_its_best_validation_not_its_last(tmp_path: Path) -> None:
    save(tmp_path / "run", TREE, step=3, validations=validated(0.7, 0.75, 0.8), goal=Goal("auc", "max"))

    def later(tree: dict[str, Any]) -> None:
        """A second validation: the first member is now the best, and was better once."""
        for member, auc in zip(tree["validations"]["members"], (0.78, 0.74, 0.77), strict=True):
            newest = {"step": 3, "loss": 1 - auc, "metrics": {"auc": auc}}
            better = auc > member["record"]["metrics"]["auc"]
            member.update(
                newest=newest, since=0 if better else 1, **({"best": newest, "record": newest} if better else {})
            )

    reseal(tmp_path / "run/checkpoints/step-000000003", later)
    rows = summarize_members(read_result(tmp_path / "run"), [LR])
    assert [(row["member"], row["validation_auc"], row["step"]) for row in rows] == [
        (2, 0.8, 1),
        (0, 0.78, 3),
        (1, 0.75, 1),
    ]


def test_without_validations_it_is_the_training_loss(tmp_path: Path) -> None:
    save(tmp_path / "run", TREE)
    records = [{"step": 1, "loss": 0.3, "members": {"loss": [0.3, 0.1, 0.2]}}]
    (tmp_path / "run/metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    found = read_result(tmp_path / "run")
    assert [(row["member"], row["training_loss"]) for row in summarize_members(found, [LR])] == [
        (1, 0.1),
        (2, 0.2),
        (0, 0.3),
    ]
    assert found.note == "no validation: ordered by the training loss, the mean of step 1"
    other = replace(found, settings=[{"loss.a": 1}, {"loss.a": 2}], ranking=replace(found.ranking, trained=""))
    assert other.note.endswith("; [loss] is not the same for all members, whose losses then measure different things")


@pytest.mark.runs
def test_a_sweep_ends_with_the_bits_and_numbers_of_its_members_own_runs(tmp_path: Path) -> None:
    """Then the best is exported."""
    settings = {**CLICKS, "run.dir": str(tmp_path / "run"), "train.steps": 8, "train.validate_every": 4}
    settings |= {"data.batch_size": 128, "train.batches_per_step": 2, "pool.threads": 1}
    (tmp_path / "x.toml").write_text(toml(settings))

    done = call_pool("sweep", str(tmp_path / "x.toml"), "--vary", f"{LR}=0.02,0.5", "--seeds", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert "--member best" in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["validation_auc"] for row in found] == sorted((row["validation_auc"] for row in found), reverse=True)
    assert {(row["config"][LR], row["config"][SEED]) for row in found} == {
        (a, b) for a in (0.02, 0.5) for b in (42, 43)
    }
    best, worst = found[0], found[-1]
    for row in (best, worst):
        alone = run_well(tmp_path / f"alone-{row['member']}", {**settings, **row["config"]})
        own = max(
            (record for record in alone.metrics() if "validation_auc" in record), key=lambda at: at["validation_auc"]
        )
        for name in ("validation_auc", "validation_loss", "validation_log_loss", "step"):
            assert row[name] == own[name]
        assert digest(tmp_path / "run/checkpoints/last", row["member"]) == digest(alone.dir / "checkpoints/last")
    net = tmp_path / "best.safetensors"
    assert main(["export", str(tmp_path / "run"), "--member", "best", "-o", str(net)]) == 0
    alone_net = tmp_path / "alone.safetensors"
    assert main(["export", str(tmp_path / f"alone-{best['member']}"), "-o", str(alone_net)]) == 0
    exported, expected = load_file(net), load_file(alone_net)
    assert exported.keys() == expected.keys()
    assert all((exported[name] == array).all() for name, array in expected.items())
    again = call_pool("sweep", str(tmp_path / "x.toml"), "--vary", f"{LR}=0.02,0.5", "--seeds", "2", "--resume")
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "ordered by the best validation auc of each, train.best_metric"
    assert [line.split()[0] for line in again.stdout.splitlines()[-5:-1]] == [str(row["member"]) for row in found]
