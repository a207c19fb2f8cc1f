"""`pool runs` and `pool find-lr`: what they say of runs, and one line for what is wrong."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsepool
from loader.errors import UsageError
from pool.analysis.plot import check_plot, plot_rates
from pool.analysis.range_test import HEIGHT, MIN_STEPS, WIDTH, draw_chart, evaluate_rates, range_test_changes
from pool.analysis.records import read_run
from pool.analysis.table import COLUMNS, runs_table, summarize_run
from pool.checkpoint.validations import Goal, Validation
from pool.commands.main import main
from pool.commands.tables import format_table
from pool.config.load import load_config
from pool.config.member_settings import find_differing_keys
from pool.errors import ConfigError
from pool.telemetry.status import Status, write_status
from tests.support.checkpoints import save
from tests.support.paths import ROOT
from tests.support.runs import TOY, toml

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def made(folder: Path, lr: float, losses: list[float], validations: dict[int, float], **config: Any) -> Path:
    """A run's folder, with steps of half a second of 2 x 100 samples; the first of a life is not timed."""
    folder.mkdir()
    tree = {"run": {"dir": str(folder)}, "data": {"batch_size": 100}, "train": {"steps": 9, "batches_per_step": 2}}
    tree |= {"optimizer": {"args": {"lr": lr}}, **config}
    (folder / "config.json").write_text(json.dumps(tree))
    lines: list[dict[str, Any]] = []
    for step, loss in enumerate(losses, 1):
        lines.append({"step": step, "loss": loss, "samples_per_second": 0.0 if step == 1 else 400.0})
        if step in validations:
            lines.append({"step": step, "validation_loss": validations[step]})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 99, "lo')
    return folder


def test_runs_stand_side_by_side_with_the_settings_that_differ(tmp_path: Path, capsys: Any) -> None:
    one = made(tmp_path / "one", 0.1, [3, 2, 1], {1: 5.0, 2: 4.0, 3: 4.0}, task="a")
    other = made(tmp_path / "other", 0.2, [3, math.nan], {}, task="a", schedule={"args": {}})
    runs = [read_run(folder) for folder in (one, other)]
    assert find_differing_keys([run.config for run in runs]) == ["optimizer.args.lr"]
    assert summarize_run(runs[0], ["optimizer.args.lr"]) == {
        "run": str(one),
        "state": "crashed",
        "step": 3,
        "steps": 9,
        "best_validation_loss": 4.0,
        "best_validation_step": 2,
        "best_metric": "loss",
        "best_checkpoint_value": None,
        "best_checkpoint_step": None,
        "last_loss": 1,
        "samples_per_second": 400.0,
        "seconds": 1.0,
        "last_step_time": None,
        "eta_seconds": None,
        "member": None,
        "members": None,
        "best_member": None,
        "config": {"optimizer.args.lr": 0.1},
    }
    assert main(["runs", str(one), str(other)]) == 0
    out = capsys.readouterr().out
    assert out == format_table(runs_table(runs))
    heading, first, second = out.splitlines()
    assert " ".join(heading.split()) == f"{' '.join(COLUMNS)} optimizer.args.lr"
    assert first.split() == [str(one), "crashed", "3/9", "4.000000", "2", "1.000000", "400", "0:00:01", "0.1"]
    assert second.split() == [str(other), "crashed", "2/9", "nan", "400", "0:00:00", "0.2"]
    assert main(["runs", str(one), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best_validation_step"] == 2
    assert main(["runs", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["last_loss"] is None


@contextmanager
def supervised(folder: Path) -> Iterator[None]:
    """The folder's lock is held, as a supervisor holds it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize(
    ("status", "last", "locked", "state", "code"),
    [
        (None, None, False, "crashed", 1),
        (None, 9, False, "finished", 0),  # killed behind its last step, or of a version without the file
        (None, 9, True, "running", 3),
        (Status(1.0), 3, False, "crashed", 1),
        (Status(1.0), 9, False, "finished", 0),
        (Status(1.0), 3, True, "running", 3),
        (Status(1.0, 2, 3.0, 0), 3, False, "finished", 0),  # stopped early, as its config says
        (Status(1.0, 2, 3.0, 143), 3, False, "stopped", 4),
        (Status(1.0, 2, 3.0, 130), 9, False, "stopped", 4),
        (Status(1.0, 2, 3.0, 65, "x.bf: is damaged"), 3, False, "crashed", 1),
        (Status(1.0, 2, 3.0, 143), 3, True, "running", 3),  # the next life is being prepared
    ],
)
def test_a_lock_and_what_the_supervisor_wrote_say_how_a_run_is(
    status: Status | None, last: int | None, locked: bool, state: str, code: int, tmp_path: Path, capsys: Any
) -> None:
    run = made(tmp_path / "x", 0.1, [3, 2, 1], {})
    if status is not None:
        write_status(run, status)
    if last is not None:
        (run / f"checkpoints/step-{last:09d}").mkdir(parents=True)
        (run / "checkpoints/last").symlink_to(f"step-{last:09d}")
    with supervised(run) if locked else nullcontext():
        assert main(["status", str(run), "--json"]) == code
        found = json.loads(capsys.readouterr().out)
        assert main(["status", str(run)]) == code
        text = capsys.readouterr().out
        assert main(["runs", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["state"] == state
        assert sparsepool.Result(run).exit_code == found["exit_code"]
    ended = status is not None and status.exit_code is not None and not locked
    assert found["state"] == state
    assert (found["exit_code"], found["restarts"]) == ((status.exit_code, 2) if ended and status else (None, 0))
    done = 3 if last is None else max(3, last)  # metrics may be lost where a disk stays full
    assert (found["step"], found["steps"], found["last_loss"]) == (done, 9, 1)
    assert (found["eta_seconds"] is not None) == locked
    assert text.startswith(f"{run}: {state}")
    assert ("x.bf: is damaged" in text) == (found["reason"] != "")


def test_the_time_to_the_end_is_that_of_the_newest_steps(tmp_path: Path) -> None:
    run = made(tmp_path / "x", 0.1, [3, 2, 1], {})
    with supervised(run):
        found = read_run(run)
    assert found.eta_seconds == pytest.approx(6 * 0.5)
    assert runs_table([found])[1][COLUMNS.index("ETA")] == "0:00:03"


def test_a_folder_of_runs_stands_for_them(tmp_path: Path, capsys: Any) -> None:
    for name in ("b", "a"):
        made(tmp_path / name, 0.1, [3], {})
    (tmp_path / "c").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/config.json").write_text("{")
    assert main(["runs", str(tmp_path), str(tmp_path / "b"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["run"] for line in out.splitlines()] == [str(tmp_path / name) for name in "abb"]
    assert err == f"pool: left out: {tmp_path}/damaged/config.json: is damaged, or no run has written it\n"
    (tmp_path / "c/recipe").mkdir()
    made(tmp_path / "c/recipe/first-0123456789ab", 0.1, [3], {})
    assert main(["runs", str(tmp_path / "c"), "--json"]) == 0
    assert capsys.readouterr().out.count("first-0123456789ab") == 1
    shutil.rmtree(tmp_path / "c/recipe")
    assert main(["runs", str(tmp_path / "c")]) == 2
    assert "c: is no folder of a run, and none is in it" in capsys.readouterr().err
    for command in (["status", str(tmp_path)], ["status", str(tmp_path / "nothing")]):
        assert main(command) == 2
        assert "is no folder of a run: config.json: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            {"loss": {"lambda_start": 1.0, "lambda_end": 1.0}},
            {"loss": {"lambda_start": 0.5, "lambda_end": 0.5}},
            "losses",
        ),
        ({"loss": {"exponent": 2.0}}, {"loss": {"exponent": 2.5}}, "loss.exponent is not the same in all runs"),
        ({"loss": {"mine": 1}}, {}, "loss.mine is not"),
        ({"task": "a"}, {"task": "b"}, "task is not"),
        ({"data": {"validation": ["a"]}}, {"data": {"validation": ["b"]}}, "validations do not compare"),
        ({"loss": {"lambda_start": 1.0, "lambda_end": 0.5}},) * 2 + ("lambda changes during the run",),
        ({"loss": {"lambda_parts": [{"start": 1.0}]}},) * 2 + ("lambda changes during the run",),
        ({}, {"optimizer": {"args": {"lr": 0.2}}}, ""),
    ],
)
def test_losses_that_measure_different_things_are_not_side_by_side_without_a_word(
    one: dict[str, Any], other: dict[str, Any], told: str, tmp_path: Path, capsys: Any
) -> None:
    for name, config in (("one", one), ("other", other)):
        made(tmp_path / name, 0.1, [3], {}, **config)
    assert main(["runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == (4 if told else 3)
    assert told in out
    assert main(["runs", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert told in err
    assert main(["runs", str(tmp_path / "one")]) == 0
    assert ("lambda changes" in capsys.readouterr().out) == ("lambda changes" in told)


ENSEMBLE: dict[str, Any] = {
    "schedule": {},
    "loss": {},
    "model": {},
    "ensemble": {"member": [{"seed": 5}, {"optimizer": {"args": {"lr": 0.3}}}]},
}


def of_members(path: Path, values: list[tuple[float, float]], validations: list[tuple[float, float]]) -> None:
    """Numbers of two members: of steps, then of validations of the last of them."""
    steps = [{"step": n, "loss": max(own), "members": {"loss": own}} for n, own in enumerate(values, 1)]
    last = [
        {"step": n, "validation_loss": 9.0, "members": {"validation_loss": own}} for n, own in enumerate(validations)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*steps, *last]))


def test_an_ensemble_is_its_best_member_or_a_row_for_each(tmp_path: Path, capsys: Any) -> None:
    one = made(tmp_path / "one", 0.1, [3, 2, 1], {1: 5.0})
    two = made(tmp_path / "two", 0.1, [], {}, **ENSEMBLE)
    tree = json.loads((two / "config.json").read_text())
    tree["run"]["seed"] = 4
    (two / "config.json").write_text(json.dumps(tree))
    of_members(two / "metrics.jsonl", [(3.0, 2.0), (1.0, 2.0)], [(math.nan, 0.5), (0.25, 0.75), (0.5, math.inf)])
    assert main(["runs", str(one), str(two)]) == 0
    headings, first, second = (line.split("  ") for line in capsys.readouterr().out.splitlines())
    assert [word.strip() for word in headings if word][: len(COLUMNS) + 1] == [*COLUMNS, "members"]
    assert [word.strip() for word in second if word][:7] == [
        str(two),
        "crashed",
        "2/9",
        "0.250000",
        "1",
        "2.000000",
        "0",
    ]
    assert "2, best 0" in [word.strip() for word in second]
    assert "2, best 0" not in [word.strip() for word in first]
    assert main(["runs", str(two), "--members", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["config"] for row in rows] == [
        {"run.model_seed": 5, "optimizer.args.lr": 0.1},
        {"run.model_seed": 4, "optimizer.args.lr": 0.3},
    ]
    assert [(row["member"], row["best_validation_loss"], row["best_validation_step"]) for row in rows] == [
        (0, 0.25, 1),
        (1, 0.5, 0),
    ]
    assert [row["last_loss"] for row in rows] == [1.0, 2.0]
    several = {"task": "clicks", "ensemble": {"members": 2}}
    save(two, several, validations=[Validation(1, 0.5, {"auc": auc}) for auc in (0.5, 0.75)], goal=Goal("auc", "max"))
    assert read_run(two).best_checkpoint == (1, 0.75)
    assert main(["runs", str(two), str(one), "--members"]) == 0
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        f"{two} member 0",
        f"{two} member 1",
        str(one),
    ]


def test_what_the_best_checkpoint_is_worth_is_shown_where_a_metric_chooses_it(tmp_path: Path) -> None:
    by_auc = made(tmp_path / "auc", 0.1, [3, 2, 1], {}, train={"steps": 9, "best_metric": "auc"})
    with (by_auc / "metrics.jsonl").open("w") as file:
        for step, auc in ((1, 0.7), (2, 0.9), (3, 0.8)):
            file.write(json.dumps({"step": step, "loss": 1.0, "samples_per_second": 400.0}) + "\n")
            file.write(json.dumps({"step": step, "validation_loss": 1 / step, "validation_auc": auc}) + "\n")
    (by_auc / "checkpoints/step-000000002").mkdir(parents=True)
    (by_auc / "checkpoints/best").symlink_to("step-000000002")
    runs = [read_run(by_auc), read_run(made(tmp_path / "loss", 0.1, [3], {1: 5.0}))]
    data = summarize_run(runs[0], ())
    assert (data["best_metric"], data["best_checkpoint_value"], data["best_checkpoint_step"]) == ("auc", 0.9, 2)
    headings, first, second = runs_table(runs)
    assert headings[: len(COLUMNS) + 1] == [*COLUMNS, "best checkpoint"]
    assert (first[len(COLUMNS)], second[len(COLUMNS)]) == ("auc 0.900000 at 2", "")


def test_a_run_that_has_just_begun_has_no_numbers_yet(tmp_path: Path) -> None:
    folder = made(tmp_path / "new", 0.1, [], {})
    (folder / "metrics.jsonl").unlink()
    data = summarize_run(read_run(folder), ())
    assert (data["step"], data["last_loss"], data["best_validation_loss"], data["seconds"]) == (0, None, None, 0.0)
    assert len(runs_table([read_run(folder)])) == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "is no folder of a run, and none is in it: no config.json"),
        ("{", "is damaged"),
        ("[]", "a table is expected"),
    ],
)
def test_what_is_no_run_is_named(content: str | None, complaint: str, tmp_path: Path, capsys: Any) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert main(["runs", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1


# --- the range test ---


def curve(rates: list[float]) -> list[float]:
    """A loss that falls from a rate of 1e-4 on, is lowest at 1e-2, and diverges."""
    return [1 / (1 + 3e3 * rate) + (30 * rate) ** 2 for rate in rates]


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="no matplotlib (pip install 'sparsepool[pictures]')")
@pytest.mark.parametrize(("suffix", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_a_range_test_is_drawn(suffix: str, begin: bytes, tmp_path: Path) -> None:
    rates = [10 ** (-6 + 6 * step / 199) for step in range(200)]
    picture = tmp_path / f"x{suffix}"
    check_plot(picture)
    plot_rates(evaluate_rates(rates, curve(rates)), picture)
    assert picture.read_bytes().startswith(begin)


def test_a_picture_that_can_not_be_drawn_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.png or \.svg is expected"):
        check_plot(Path("x.pdf"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="--plot: needs matplotlib, which is not installed: pip install"):
        check_plot(Path("x.png"))


def test_a_tenth_of_the_rate_with_the_lowest_smoothed_loss_is_suggested() -> None:
    rates = [10 ** (-6 + 6 * step / 199) for step in range(200)]
    found = evaluate_rates(rates, curve(rates))
    lowest = min(rates, key=lambda rate: curve([rate])[0])
    assert lowest < found.lowest < 3 * lowest  # smoothed losses come later
    assert found.suggested == found.lowest / 10
    assert found.smoothed[0] == pytest.approx(found.losses[0])


def test_what_comes_behind_a_divergence_does_not_count() -> None:
    rates = [10 ** (-3 + step / 10) for step in range(40)]
    losses = [1.0 - 0.01 * step for step in range(20)] + [1e6] * 5 + [-1e9] * 15
    assert evaluate_rates(rates, losses).lowest <= rates[19]
    assert evaluate_rates(rates, [*losses[:20], *[math.nan] * 20]).lowest <= rates[19]
    with pytest.raises(ConfigError, match=f"{MIN_STEPS - 1} steps are too few to say anything; {MIN_STEPS} are needed"):
        evaluate_rates(rates[: MIN_STEPS - 1], losses[: MIN_STEPS - 1])


@given(
    losses=st.lists(st.floats(-1e6, 1e6), min_size=MIN_STEPS, max_size=60),
    low=st.floats(1e-9, 1e-3),
    factor=st.floats(1.001, 3),
)
def test_any_curve_is_drawn_within_its_frame(losses: list[float], low: float, factor: float) -> None:
    rates = [low * factor**step for step in range(len(losses))]
    found = evaluate_rates(rates, losses)
    lines = draw_chart(rates, found.smoothed, found.suggested).splitlines()
    assert len(lines) == HEIGHT + 1
    assert max(map(len, lines)) <= 11 + WIDTH
    assert any("*" in line for line in lines)


def test_the_short_run_has_a_rising_rate_and_nothing_of_the_configs_own_schedule(tmp_path: Path) -> None:
    given = {"schedule.parts": [{"steps": 3}, {}], "train.validate_every": 3}
    given |= {"train.export_every": 2, "train.on_export": ["./match"], "train.export_weights": "newest"}
    (tmp_path / "x.toml").write_text(toml({**TOY, **given}))
    config = load_config(tmp_path / "x.toml", range_test_changes(50, 1e-4, 1.0, str(tmp_path / "run")))
    assert not config.schedule.parts
    assert config.optimizer.args["lr"] * config.schedule.args["gamma"] ** 49 == pytest.approx(1.0)
    assert (config.train.steps, config.validate_every, config.run.sinks) == (50, 0, ())
    assert (config.train.export_every, config.train.on_export) == (0, ())
    for low, high in ((0.0, 1.0), (1.0, 1.0), (1.0, math.inf)):
        with pytest.raises(ConfigError, match="--from must be above 0 and below --to"):
            range_test_changes(50, low, high, "x")


@pytest.mark.runs
@pytest.mark.parametrize("diverges", [False, True])
def test_it_is_found_in_a_folder_that_is_gone_afterwards(diverges: bool, tmp_path: Path) -> None:
    """A run that ends early because its loss is not finite has said enough."""
    change = {"loss.infinite_gradient_of_batch": 40} if diverges else {}
    (tmp_path / "toy.toml").write_text(toml({**TOY, **change, "pool.devices": ["fake:0"]}))
    command = [sys.executable, "-m", "pool", "find-lr", str(tmp_path / "toy.toml"), "--json", "--steps", "30"]
    done = subprocess.run(
        [*command, "--from", "1e-4"],
        cwd=ROOT,
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["losses"]) == (20 if diverges else 30)
    assert found["rates"][0] == pytest.approx(1e-4)
    assert found["suggested"] == found["lowest"] / 10
    assert done.stderr == "find-lr: 30 steps\n"
    assert not list(tmp_path.glob("find-lr-*"))


def test_a_run_that_can_not_begin_is_one_line_and_leaves_no_folder(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "toy.toml").write_text(toml({**TOY, "model.num_features": 7}))
    assert main(["find-lr", str(tmp_path / "toy.toml")]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == ["pool: model.num_features: 7, data has 1000"]
    assert not list(tmp_path.glob("find-lr-*"))
