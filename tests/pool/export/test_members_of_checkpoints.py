"""Which networks of an ensemble's checkpoint are exported, asked and evaluated, and what is refused in one line."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import sparsepool
from pool.checkpoint.validations import Goal, Validation
from pool.commands.main import main
from pool.config.load import parse_config
from pool.export.load import load_network, load_networks
from pool.export.member import Choice
from pool.nn.batch import TensorBatch
from pool.tasks.chess.networks.network_files import open_network
from pool.tasks.chess.positions import read_fen
from tests.support.checkpoints import save, weights_of
from tests.support.crafted import reseal
from tests.support.toy_model import ToyTask

FIELDS = {"user": 50}
CLICKS: dict[str, Any] = {"task": "clicks", "model": {"kind": "mlp", "fields": FIELDS, "rank": 2, "hidden": [4]}}
SEEDS = {**CLICKS, "ensemble": {"members": 3}}
RATES = {**CLICKS, "ensemble": {"member": [{"optimizer": {"args": {"lr": rate}}} for rate in (0.1, 0.2, 0.4)]}}
AUC = Goal("auc", "max")
TOY = {"task": "tests.support.toy", "data": {"source": "tests.loader.stream.test_in_order:Numbers", "batch_size": 4}}
OF_TOY = ["--task", "tests.support.toy", "--set", "data.source=tests.loader.stream.test_in_order:Numbers"]


def validations(*values: float) -> list[Validation]:
    """Of step 1: what the members are worth, by loss and by auc."""
    return [Validation(1, value, {"auc": value}) for value in values]


def exported(where: Path, *options: str) -> dict[str, np.ndarray[Any, Any]]:
    output = where / "net.safetensors"
    assert main(["export", str(where), "-o", str(output), "--force", *options]) == 0
    return load_file(output)


def said(capsys: Any, code: int, *words: str) -> str:
    """The one line with which a command is refused."""
    assert main([*words]) == code
    (line,) = capsys.readouterr().err.splitlines()
    return str(line)


def assert_same(found: Any, expected: Any) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_member_is_exported_as_its_own_run_would_be(tmp_path: Path, capsys: Any) -> None:
    checkpoint = save(tmp_path / "run", SEEDS)
    members = parse_config(SEEDS, "test").members
    for m, member in enumerate(members):
        own = save(tmp_path / f"alone-{m}", {**CLICKS, "run": {"model_seed": member.model_seed}})
        assert_same(exported(tmp_path / "run", "--member", str(m)), exported(own))
        assert f"from {checkpoint}, member {m}\n" in capsys.readouterr().out
    assert_same(exported(tmp_path / "alone-0", "--member", "0"), exported(tmp_path / "alone-0", "--average"))


@pytest.mark.parametrize(
    ("goal", "values", "best"),
    [
        (Goal(), (0.3, 0.1, 0.2), 1),
        (AUC, (0.3, 0.1, 0.3), 0),
        (AUC, (math.nan, 0.1, 0.2), 2),
        (AUC, (math.nan, math.inf, 0.2), 2),
    ],
)
def test_the_best_is_that_of_the_newest_validation(
    goal: Goal, values: tuple[float, ...], best: int, tmp_path: Path, capsys: Any
) -> None:
    save(tmp_path / "run", SEEDS, validations=validations(*values), goal=goal)
    assert_same(exported(tmp_path / "run", "--member", "best"), weights_of(parse_config(SEEDS, "test").members[best]))
    expected = f"member {best}, the best: validation {goal.metric} {values[best]:.6f} of step 1\n"
    assert expected in capsys.readouterr().out


def test_without_validations_the_best_is_that_of_the_lowest_training_loss(tmp_path: Path, capsys: Any) -> None:
    checkpoint = save(tmp_path / "run", SEEDS, step=150)
    missing = said(capsys, 2, "export", str(checkpoint), "-o", str(tmp_path / "net"), "--member", "best")
    assert "has no validation, and metrics.jsonl of its run, with the losses, is not there: name a member" in missing
    records = [
        {"step": step, "loss": 0.0, "members": {"loss": [0.5, 0.1 if step <= 50 else 0.4, 0.3 if step > 50 else 0.9]}}
        for step in range(1, 150)
    ]
    records.append({"step": 150, "loss": 0.0, "members": {"loss": [0.5, 0.4, math.nan]}})
    records.append({"step": 151, "loss": 0.0, "members": {"loss": [0.0, 0.4, 0.0]}})  # the checkpoint is older
    (tmp_path / "run/metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    exported(tmp_path / "run", "--member", "best")
    assert "member 1, the best: training loss 0.400000, the mean of steps 51 to 150\n" in capsys.readouterr().out


def test_losses_that_measure_different_things_are_said_to(tmp_path: Path, capsys: Any) -> None:
    members = [{"loss": {"lambda_end": value}} for value in (0.5, 1.0)]
    tree = {"model": {"l1": 32}, "ensemble": {"member": members}}
    save(tmp_path / "run", tree, validations=validations(0.2, 0.1))
    exported_to = tmp_path / "net.nnue"
    assert main(["export", str(tmp_path / "run"), "-o", str(exported_to), "--member", "best"]) == 0
    assert "of step 1, though [loss] is not the same for all members\n" in capsys.readouterr().out


def test_the_average_is_that_of_the_weights_of_members_that_began_with_the_same(tmp_path: Path, capsys: Any) -> None:
    checkpoint = save(tmp_path / "run", RATES)
    arrays = {name: array.copy() for name, array in load_file(checkpoint / "weights.safetensors").items()}
    found = exported(tmp_path / "run", "--average")
    assert "the average of 3 members\n" in capsys.readouterr().out
    for name, array in found.items():
        each = [arrays[f"member.{m}.{name}"].astype(np.float64) for m in range(3)]
        np.testing.assert_array_equal(array, np.mean(each, axis=0).astype(np.float32))
    model = load_network(tmp_path / "run", None, Choice(average=True)).model
    assert_same({name: tensor.numpy() for name, tensor in model.state_dict().items()}, found)


def test_a_member_that_has_diverged_is_no_part_of_the_average(tmp_path: Path, capsys: Any) -> None:
    checkpoint = save(tmp_path / "run", RATES, validations=validations(0.3, math.nan, 0.2))
    arrays = {name: array.copy() for name, array in load_file(checkpoint / "weights.safetensors").items()}
    found = exported(tmp_path / "run", "--average")
    assert "the average of 2 members, without member 1 (diverged at step 1)\n" in capsys.readouterr().out
    for name, array in found.items():
        each = [arrays[f"member.{m}.{name}"].astype(np.float64) for m in (0, 2)]
        np.testing.assert_array_equal(array, np.mean(each, axis=0).astype(np.float32))


def test_buffers_are_averaged_and_whole_numbers_are_those_of_the_first(tmp_path: Path) -> None:
    tree = {**TOY, "model": {"batch_norm": True}, "ensemble": {"member": [{}, {"optimizer": {"args": {"lr": 1.0}}}]}}

    def change(tensors: dict[str, torch.Tensor]) -> None:
        for m in range(2):
            tensors[f"member.{m}.norm.num_batches_tracked"] += 5 * (m + 1)
            tensors[f"member.{m}.norm.running_mean"] += m

    checkpoint = save(tmp_path / "run", tree, change=change)
    state = load_network(checkpoint, str(TOY["task"]), Choice(average=True)).model.state_dict()
    assert state["norm.num_batches_tracked"] == torch.tensor(5)
    assert state["norm.running_mean"].tolist() == [0.5] * 16


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        (SEEDS, "began with different weights, model_seed = 42, 43, 44: only those that began with the same can be"),
        ({**CLICKS, "model": {**CLICKS["model"], "start_from": "gone"}, "ensemble": {"members": 2}}, "is not here"),
        (
            {"ensemble": {"member": [{"model": {"clip_weights": False}}, {}]}, "model": {"l1": 32}},
            "differ in model.clip_weights",
        ),
    ],
)
def test_members_that_have_no_average_are_refused(
    tree: dict[str, Any], complaint: str, tmp_path: Path, capsys: Any
) -> None:
    save(tmp_path / "run", tree)
    line = said(capsys, 2, "export", str(tmp_path / "run"), "-o", str(tmp_path / "net"), "--average")
    assert line.startswith("pool: --average: members of ")
    assert complaint in line
    assert not (tmp_path / "net").exists()


def test_members_that_started_from_one_network_have_an_average_and_those_of_an_ensemble_none(
    tmp_path: Path, capsys: Any
) -> None:
    for name, tree in (("one", CLICKS), ("three", SEEDS)):
        start = save(tmp_path / name, tree)
        save(tmp_path / f"from-{name}", {**SEEDS, "model": {**CLICKS["model"], "start_from": str(tmp_path / name)}})
    exported(tmp_path / "from-one", "--average")
    line = said(capsys, 2, "export", str(tmp_path / "from-three"), "-o", str(tmp_path / "net"), "--average")
    assert line.endswith(f"began with the different members of {start}")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            (),
            "has 3 members: choose with --member M, --member best or --average; they are 0 (optimizer.args.lr = 0.1), "
            "1 (optimizer.args.lr = 0.2), 2 (optimizer.args.lr = 0.4)",
        ),
        (("--member", "3"), "member 3: {} has the members 0 to 2"),
        (("--member", "worst"), "--member worst: a number from 0, or best, is expected"),
        (("--member", "-1"), "--member -1: a number from 0"),
        (("--member", "1", "--average"), "--average: is of all members; leave out --member"),
        (("--member", "best"), "best member: none of {} has a finite loss: name a member by its number"),
    ],
)
def test_what_can_not_be_chosen_is_one_line(
    options: tuple[str, ...], complaint: str, tmp_path: Path, capsys: Any
) -> None:
    checkpoint = save(tmp_path / "run", RATES, validations=validations(math.nan, math.nan, math.nan))
    line = said(capsys, 2, "export", str(checkpoint), "-o", str(tmp_path / "net"), *options)
    assert complaint.format(checkpoint) in line
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ensemble": {"members": 2}}, "member.2.layers.0.bias: a tensor of no member of the config"),
        ({"ensemble": {"members": "x"}}, "config.ensemble: members: input should be a valid integer"),
        ({"ensemble": {"members": 3, "member": [{}]}}, "config.ensemble.members: members are either"),
        ({"ensemble": {"members": 3}, "schedule": 3}, "config.schedule: a section is expected"),
        ({"ensemble": {"members": 3}, "run": {"seed": "x"}}, "config.run.seed: a number is expected"),
        ({"ensemble": {"members": 3}, "run": {"seed": (1 << 63) - 1}}, "config.run.seed: seed: input should be less"),
        ({"ensemble": {"member": [{}, {}, {"model": {"rank": 3}}]}}, "member 2: "),
        (
            {"ensemble": {"members": 4}},
            "member 3: table_user.weight: float32 50 x 2 in the config's model, not in the checkpoint",
        ),
    ],
)
def test_a_config_that_the_tensors_are_not_of_is_refused(
    change: dict[str, Any], complaint: str, tmp_path: Path, capsys: Any
) -> None:
    checkpoint = save(tmp_path / "run", SEEDS)
    reseal(checkpoint, lambda tree: tree["config"].update(change))
    data = str(tmp_path / "data")
    line = said(capsys, 1, "predict", str(checkpoint), "--data", data, "-o", str(tmp_path / "net"))
    assert complaint in line


# --- predict ---


def test_predictions_are_the_mean_of_the_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    members = [{"model": {"deadly_batch": -2 - m}} for m in range(3)]
    tree = {**TOY, "ensemble": {"member": members}}
    save(tmp_path / "run", tree, validations=validations(0.3, 0.1, 0.2))

    def answer(_task: object, model: Any, batch: TensorBatch) -> torch.Tensor:
        numbers: torch.Tensor = batch.dense["number"].float() * (-1 - model.deadly_batch)
        return numbers

    monkeypatch.setattr(ToyTask, "predict", answer)

    def asked(*options: str) -> list[float]:
        output = tmp_path / "out.tsv"
        output.unlink(missing_ok=True)
        (tmp_path / "data").touch()
        words = ["predict", str(tmp_path / "run"), "--data", str(tmp_path / "data"), "-o", str(output)]
        assert main([*words, *OF_TOY, *options]) == 0
        return [float(line) for line in output.read_text().splitlines()]

    assert asked() == [2.0 * number for number in range(10)]
    assert capsys.readouterr().out.splitlines()[0].endswith(", the mean of 3 members")
    assert asked("--member", "2") == [3.0 * number for number in range(10)]
    assert asked("--member", "best") == [2.0 * number for number in range(10)]
    assert "member 1, the best" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "run")
    save(tmp_path / "run", tree, validations=validations(math.inf, 0.1, 0.2))
    assert asked() == [2.5 * number for number in range(10)], "of the members that have not diverged"
    shown = capsys.readouterr().out.splitlines()[0]
    assert shown.endswith(", the mean of 2 members, without member 0 (diverged at step 1)")
    assert asked("--member", "1") == [2.0 * number for number in range(10)]
    assert "without member" not in capsys.readouterr().out


def test_class_numbers_have_no_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    save(tmp_path / "run", {**TOY, "ensemble": {"members": 2}})
    monkeypatch.setattr(ToyTask, "predict", lambda _self, _model, batch: batch.dense["number"].long())
    (tmp_path / "data").touch()
    words = ["predict", str(tmp_path / "run"), "--data", str(tmp_path / "data"), "-o", str(tmp_path / "out"), *OF_TOY]
    assert "gives int64, which has no mean over members: choose with --member M" in said(capsys, 2, *words)
    assert main([*words, "--member", "1"]) == 0


# --- eval ---

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


def test_eval_of_an_ensemble_is_the_mean_of_its_members(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    save(run, {"model": {"l1": 32}, "ensemble": {"members": 3}}, validations=validations(0.3, 0.1, 0.2))
    network = open_network(run)
    positions = [read_fen(fen, network.inputs) for fen in (START, "4k3/8/8/8/8/8/8/3QK3 w - -")]
    each = [open_network(run, Choice(m)).evaluate(positions) for m in range(3)]
    found = network.evaluate(positions)
    np.testing.assert_array_equal(found.value, np.rint(np.mean([one.value for one in each], axis=0)))
    np.testing.assert_array_equal(found.values, np.rint(np.mean([one.values for one in each], axis=0)))
    np.testing.assert_allclose(found.pawns, np.mean([one.pawns for one in each], axis=0))
    assert found.terms.keys() == {"psqt", "positional"}
    assert len({int(one.value[1]) for one in each}) == 3
    assert main(["eval", str(run), "--member", "best", "--fen", "startpos", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == int(each[1].value[0])
    net = tmp_path / "net.nnue"
    assert main(["export", str(run), "--member", "2", "-o", str(net)]) == 0
    assert open_network(net).evaluate(positions).value.tolist() == each[2].value.tolist()
    capsys.readouterr()
    line = said(capsys, 2, "eval", str(net), "--member", "2", "--fen", "startpos")
    assert line == f"pool: --member 2: {net} is a file, of one network"


# --- from Python ---


def test_weights_and_metrics_of_a_member(tmp_path: Path) -> None:
    save(tmp_path / "run", SEEDS, validations=validations(0.3, 0.1, 0.2))
    config = parse_config(SEEDS, "test")
    (tmp_path / "run/config.json").write_text(config.model_dump_json())
    record = {"step": 1, "loss": 0.2, "epoch": 0, "members": {"loss": [0.3, 0.1, 0.2]}}
    (tmp_path / "run/metrics.jsonl").write_text(json.dumps(record) + "\n")
    result = sparsepool.Result(tmp_path / "run")
    assert {name.split(".")[1] for name in result.weights()} == {"0", "1", "2"}
    for member, number in ((2, 2), ("best", 1)):
        expected = {name: tensor.numpy() for name, tensor in weights_of(config.members[number]).items()}
        assert_same(result.weights(member=member), expected)  # type: ignore[arg-type]
    assert result.metrics(member=1) == [{"step": 1, "loss": 0.1, "epoch": 0}]
    assert result.metrics() == [record]
    for ask in (result.weights, result.metrics):
        with pytest.raises(sparsepool.SparsepoolError, match=r"member 3: .* has the members 0 to 2"):
            ask(member=3)


def test_members_are_told_apart_by_words(tmp_path: Path) -> None:
    checkpoint = save(tmp_path / "run", SEEDS)
    found = load_networks(checkpoint, None, "predict")
    assert [str(member) for member in found] == [f"{checkpoint}, member {m}" for m in range(3)]
    assert [member.config["run"]["model_seed"] for member in found] == [42, 43, 44]
    (alone,) = load_networks(save(tmp_path / "alone", CLICKS), None, "predict")
    assert str(alone) == str(alone.checkpoint)
