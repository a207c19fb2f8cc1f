"""What a user can get wrong: one clear line on stderr, an exit code, nothing left behind (I8)."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loader.exit_codes import EXIT_UNAVAILABLE, EXIT_USAGE
from tests.chaos.oracle import check_nothing_left_outside, left_outside
from tests.support.paths import ROOT, VALIDATION
from tests.support.refusals import refused
from tests.support.runs import TOY, Ended, WholeRun, command, copied, elsewhere, pids_of, run, run_well
from tests.support.warm import call_pool

NNUE: dict[str, Any] = {
    "task": "stockfish",
    "data.train": [str(VALIDATION)],
    "data.batch_size": 256,
    "model.l1": 16,
    "train.steps": 2,
    "pool.devices": ["fake:0"],
}

TASKS_ALLOWED = "allowed: clicks, perspective, stockfish, or the name of a module, or module:Class"

BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"data.batch_sise": 5}, "data.batch_sise: unknown key; allowed here: train, validation, source"),
    ({"rum.dir": "x"}, "rum: unknown key; allowed here: task, run, data"),
    ({"data.batch_size": 0}, "data.batch_size: input should be greater than 0, not 0"),
    ({"data.batch_size": "many"}, 'data.batch_size: input should be a valid integer, not "many"'),
    ({"data.tail": "cut"}, "data.tail: input should be 'flow' or 'drop', not \"cut\""),
    ({"train.steps": 1.5}, "train.steps: input should be a valid integer"),
    ({"data.chess.features": "HalfKP"}, "data.chess.features:"),
    ({"data.source": "nowhere"}, "data.source: no family of records 'nowhere'; allowed: chess, rows, synthetic, or "),
    (
        {"task": "draughts"},
        f"task: no task 'draughts'; {TASKS_ALLOWED}",
    ),
    ({"task": ""}, f"task: no task ''; {TASKS_ALLOWED}"),
    ({"task": ".nnue"}, f"task: no task '.nnue'; {TASKS_ALLOWED}"),
    ({"task": "nnue"}, 'task: nnue is called stockfish now: write task = "stockfish"'),
    ({"pool.devices": ["gpu:0"]}, "pool.devices: 'gpu:0': allowed: cuda:N, cpu, auto"),
    ({"pool.devices": ["fake:0?explode=1"]}, "unknown option explode; allowed: compute_ms, crash"),
    ({"pool.devices": ["cuda:99"]}, "pool.devices: 'cuda:99': this machine shows"),
    ({"pool.ring_slots": 1}, "pool.ring_slots: 1 is too few"),
    ({"optimizer.name": "torch.optim.Adamm"}, "optimizer.name: 'torch.optim.Adamm' can't be loaded"),
    ({"optimizer.args.lrr": 1.0}, "optimizer.args: pool.optim.Adam: TypeError"),
    ({"optimizer.name": "Adam"}, "did you mean torch.optim.Adam or pool.optim.Adam?"),
    ({"train.validate_every": 5}, "train.validate_every: 5, but data.validation names no file"),
    (
        {"train.early_stopping": 5},
        "train.early_stopping: 5, but there are no validations; name files in data.validation",
    ),
    (
        {"data.validation": [str(VALIDATION)], "data.validation_share": 0.1},
        "data.validation_share: 0.1: data.validation names files, too; set one of them",
    ),
    ({"data.validation_share": 0.6}, "data.validation_share: input should be less than or equal to 0.5, not 0.6"),
    ({"data.validation_share": 0.02}, "data.validation_share: 0.02 of "),
    ({"train.best_metric": "auc"}, "train.best_metric: 'auc' is not measured; allowed: loss"),
    ({"data.validation": ["/nowhere/*.binpack"]}, "data.validation: no file matches '/nowhere/*.binpack'"),
    ({"run.trace": "~nosuchuser/x"}, "run.trace: '~nosuchuser/x': the home folder is not known"),
    ({"data.train": ["~nosuchuser/x"]}, "data.train: '~nosuchuser/x': the home folder is not known"),
    ({"optimizer.name": "..Adam"}, "optimizer.name: '..Adam' can't be loaded"),
    ({"schedule.name": "StepLR"}, "schedule.name: 'StepLR' can't be loaded"),
    ({"data.train": ["/nowhere/*.binpack"]}, "data.train: no file matches '/nowhere/*.binpack'"),
    ({"data.train": []}, "data.train:"),
    ({"data.train": [f"{VALIDATION.parent}"]}, f"data.train: '{VALIDATION.parent}' is a folder; name the files in it"),
    ({"data.chess.features": "HalfKAv2_hm^"}, "model.factorized"),
    ({"model.start_from": "/nowhere.nnue"}, "/nowhere.nnue: "),
]


@pytest.mark.parametrize(("change", "complaint"), BAD_SETTINGS, ids=lambda value: str(value)[:50])
def test_a_bad_setting_is_one_line_that_names_the_key(change: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    error = refused(tmp_path / "run", {**NNUE, **change})
    assert complaint in str(error)
    assert len(str(error).splitlines()) == 1
    away = any(word in complaint for word in ("/nowhere", "this machine shows"))
    assert error.exit_code == (EXIT_UNAVAILABLE if away else EXIT_USAGE)
    assert not (tmp_path / "run/checkpoints").exists()


REFUSED_BY: dict[str, tuple[dict[str, Any], int, str]] = {
    "the config": ({"data.batch_sise": 5}, 2, "data.batch_sise: unknown key"),
    "the supervisor": ({"data.train": ["/nowhere/*.binpack"]}, 69, "data.train: no file matches"),
    "the supervisor, for a device": ({"pool.devices": ["gpu:0"]}, 2, "pool.devices: 'gpu:0': allowed: cuda:N"),
    "the planner": ({"optimizer.args.lrr": 1.0}, 2, "optimizer.args: pool.optim.Adam: TypeError"),
    "the planner, for a file": ({"model.start_from": "/nowhere.nnue"}, 69, "/nowhere.nnue: "),
}


@pytest.mark.parametrize("by", REFUSED_BY)
def test_a_refused_run_is_one_line_and_an_exit_code_and_leaves_nothing(by: str, tmp_path: Path) -> None:
    change, code, complaint = REFUSED_BY[by]
    ended = run(tmp_path / "run", {**NNUE, **change})
    assert ended.err.startswith("pool: ")
    assert complaint in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.code == code
    assert (tmp_path / "run/logs/forkserver-0.log").exists() == by.startswith("the planner"), "torch is imported"
    assert not (tmp_path / "run/checkpoints").exists()
    assert not pids_of(tmp_path / "run")


def bad_file(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.binpack"
    good = VALIDATION.read_bytes()
    contents = {
        "empty": b"",
        "truncated": good[:-100],
        "wrong magic": b"PACK" + good[4:],
        "oversized chunk": good[:4] + b"\xff\xff\xff\xff" + good[8:],
        "random bytes": bytes(range(7, 256)) * 40,
        "damaged chain": good[:9000] + bytes(40) + good[9040:],
    }
    path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("empty", ""),
        ("truncated", "offset 0: expected the"),
        ("wrong magic", "offset 0: expected a chunk, which begins with b'binp'"),
        ("oversized chunk", "offset 0: expected a chunk of at most 104857600 bytes, got one of 4294967295"),
        ("random bytes", "offset 0: expected a chunk, which begins with b'binp'"),
    ],
)
def test_a_bad_data_file_is_one_line_that_names_file_and_offset(kind: str, complaint: str, tmp_path: Path) -> None:
    path = bad_file(tmp_path, kind)
    error = refused(tmp_path / "run", {**NNUE, "data.train": [str(path)]})
    assert str(error).startswith(f"{path}: ")
    assert complaint in str(error).lower()
    assert len(str(error).splitlines()) == 1
    assert error.exit_code == 65


def test_damage_that_is_found_while_training_is_one_line_that_names_file_and_offset(tmp_path: Path) -> None:
    path = bad_file(tmp_path, "damaged chain")
    ended = run(tmp_path / "run", {**NNUE, "data.train": [str(path)], "train.steps": 10_000})
    assert f"{path}: offset " in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.code == 65
    assert not pids_of(tmp_path / "run")


def test_a_damaged_chunk_is_left_out_and_logged_if_the_config_says_so(tmp_path: Path) -> None:
    path = bad_file(tmp_path, "damaged chain")
    settings = {**NNUE, "data.train": [str(path), str(VALIDATION)], "data.on_bad_data": "skip", "train.steps": 20}
    ended = run_well(tmp_path / "run", settings)
    assert ended.metrics()[-1]["step"] == 20
    (log,) = (tmp_path / "run/logs").glob("feeder-*.log")
    told = [line for line in log.read_text().splitlines() if "left out: " in line and f"{path}: offset " in line]
    assert len(told) == 1


def test_a_missing_config_file_is_named(tmp_path: Path) -> None:
    done = call_pool("train", tmp_path / "none.toml")
    assert done.returncode == 2
    assert done.stderr == f"pool: {tmp_path / 'none.toml'}: No such file or directory\n"


def test_a_folder_with_a_run_in_it_is_not_overwritten(whole_run: WholeRun, tmp_path: Path) -> None:
    error = refused(copied(whole_run(TOY), tmp_path / "run"), TOY)
    assert error.exit_code == 2
    assert "go on with --resume, or choose another run.dir" in str(error)


def test_a_run_is_not_resumed_with_other_batches_and_its_config_stays(whole_run: WholeRun, tmp_path: Path) -> None:
    folder = copied(whole_run(TOY), tmp_path / "run")
    before = (folder / "config.json").read_bytes()
    other = run(folder, {**TOY, "data.batch_size": 32, "train.steps": 20}, "--resume")
    assert other.code == 2
    assert "data.batch_size: 32 now, 64 in" in other.err
    assert (folder / "config.json").read_bytes() == before


def test_a_run_that_began_with_another_default_optimizer_does_not_change_it_on_resume(tmp_path: Path) -> None:
    silent = {key: value for key, value in TOY.items() if key != "optimizer.name"}
    then = {**silent, "optimizer.name": "torch.optim.Adam"}  # a run folder names it, whether it was set or not
    run_well(tmp_path / "run", then)
    error = refused(tmp_path / "run", {**silent, "train.steps": 20}, resume=True)
    assert error.exit_code == EXIT_USAGE
    assert "torch.optim.Adam" in str(error)
    assert "pool.optim.Adam" in str(error)
    done = call_pool("train", "--resume", tmp_path / "run", "--set", "train.steps=20")
    assert done.returncode == 0
    assert (
        Ended(tmp_path / "run", 0, "", "").digest()
        == run_well(tmp_path / "whole", {**then, "train.steps": 20}).digest()
    )


def test_a_damaged_checkpoint_is_refused_by_file_and_tensor(whole_run: WholeRun, tmp_path: Path) -> None:
    folder = copied(whole_run(TOY), tmp_path / "run")
    weights = folder / "checkpoints/last/weights.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-1] ^= 1
    weights.write_bytes(damaged)
    error = refused(folder, {**TOY, "train.steps": 20}, resume=True)
    assert error.exit_code == 1
    assert "weights.safetensors: tensor" in str(error)
    assert "is damaged" in str(error)
    assert len(str(error).splitlines()) == 1


def test_a_resume_takes_the_checkpoint_before_a_damaged_one_and_says_so(tmp_path: Path) -> None:
    """The same bits in the end; and the damaged one is not there to be taken another time."""
    settings = {**TOY, "train.checkpoint_every": 6}
    whole = run_well(tmp_path / "run", settings)
    folder = tmp_path / "run/checkpoints"
    weights = folder / "step-000000012/weights.safetensors"
    digest = whole.digest()
    weights.write_bytes(weights.read_bytes()[:-1])
    (folder / "last").unlink()
    (folder / "last").symlink_to("step-000000099")
    resumed = run_well(tmp_path / "run", settings, "--resume")
    assert f"{weights}: is damaged: it has " in resumed.out
    assert "it is damaged-step-000000012 now, and the run goes on from step-000000006" in resumed.out
    assert resumed.digest() == digest
    names = {path.name for path in folder.iterdir()}
    assert names == {"step-000000006", "step-000000012", "damaged-step-000000012", "last"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_run_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    ended = run(tmp_path / "run", TOY)
    assert ended.code == 2
    assert "run.dir" in ended.err


def test_a_run_folder_with_a_very_long_path_works(tmp_path: Path) -> None:
    """Longer than a socket's may be; no folder for sockets is made elsewhere."""
    before = left_outside()
    long = tmp_path / ("x" * 120) / "run"
    long.parent.mkdir()
    assert run(long, {**TOY, "train.steps": 2}).code == 0
    check_nothing_left_outside(before)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["train"], "Missing argument 'CONFIG.toml'."),
        (["train", "x.toml", "--nonsense"], "No such option: --nonsense"),
        (["train", "x.toml", "--check"], "train --check is pool check CONFIG now"),
        (["train", "--machines=2"], "train --machines is pool machines CONFIG now"),
        (["machines-key", "run.key"], "machines-key is pool machines --new-key FILE now"),
        (["draughts"], "No such command 'draughts'."),
        (["eval", "x.nnue"], "eval: give either --fen (once or more) or --epd FILE"),
        (
            ["settings", "--task", "draughts"],
            f"task: no task 'draughts'; {TASKS_ALLOWED}",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(arguments: list[str], complaint: str) -> None:
    done = call_pool(*arguments)
    assert done.stderr == f"pool: {complaint}\n"
    assert done.returncode == 2


def test_a_folder_that_was_there_keeps_its_rights(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o755)
    assert refused(folder, {**TOY, "data.synthetic.max_active": 2000}).exit_code == 2
    assert folder.stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("redirection", [">/dev/full", ">&- 2>&- <&-"])
def test_a_run_goes_on_when_its_output_can_not_be_written(redirection: str, tmp_path: Path) -> None:
    line = f"set -o pipefail; {shlex.join(command(tmp_path / 'run', TOY))} {redirection}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run/checkpoints/last/state.json").exists()


@pytest.mark.parametrize(("redirection", "codes"), [(">&-", {0}), (">/dev/full", {71}), ("| true", {0, 141})])
def test_settings_without_anybody_to_read_them_is_no_traceback(redirection: str, codes: set[int]) -> None:
    line = f"set -o pipefail; {shlex.quote(sys.executable)} -m pool settings {redirection}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in codes
    assert done.stderr == ("pool: No space left on device\n" if codes == {71} else "")


def test_exporting_what_is_no_checkpoint_says_so(tmp_path: Path) -> None:
    done = call_pool("export", tmp_path, "-o", tmp_path / "x.nnue")
    assert done.stderr == f"pool: {tmp_path}: is no checkpoint folder: it has no state.json\n"
    assert done.returncode == 1


TASK = "from tests.support.toy import LossConfig, ModelConfig\ndef create_task(model, loss):\n"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("raise RuntimeError('no licence')", "can't be imported: RuntimeError: no licence ("),
        ("import sys; sys.exit('no licence')", "can't be imported: SystemExit: no licence ("),
        ("def (", "can't be imported: SyntaxError: invalid syntax ("),
        ("import nosuchthing", "can't be imported: ModuleNotFoundError: No module named 'nosuchthing' ("),
        (f"{TASK}    return nosuchname", "broken_task: NameError: name 'nosuchname' is not defined ("),
        (f"{TASK}    return None", "broken_task: NoneType.check is missing: a task must have check(schema)"),
    ],
    ids=["raises", "exits", "syntax", "imports", "create_task raises", "create_task gives nothing"],
)
def test_a_broken_task_is_one_line_with_its_place(source: str, complaint: str, tmp_path: Path) -> None:
    """The module lies in the folder that the command is called in."""
    (tmp_path / "broken_task.py").write_text(source, encoding="utf-8")
    config = tmp_path / "run.toml"
    config.write_text(
        'task = "broken_task"\nrun.dir = "run"\ndata.source = "synthetic"\n'
        'data.batch_size = 64\npool.devices = ["fake:0"]\n',
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from pool.__main__ import main; sys.exit(main())", "train", str(config)],
        cwd=tmp_path,
        env=elsewhere(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert complaint in done.stderr
    assert "broken_task.py:" in done.stderr or "broken_task: NoneType.check" in done.stderr


def test_a_current_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    words = [*command(tmp_path / "run", TOY), "--set", "run.dir=x"]
    words[1:3] = ["-c", "import sys; from pool.__main__ import main; sys.exit(main())"]
    for arguments in (words, words[:-2]):  # a relative run folder, and another
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *arguments],
            cwd=gone,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert "the current folder can't be found" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_trace_that_can_not_be_written_is_known_before_the_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "nowhere" / "trace.json", tmp_path / "pipe"):
        ended = run(tmp_path / "run", TOY, "--trace", str(path))
        assert ended.code == 2
        assert ended.err == f"pool: run.trace: {path} can't be written: it must be a file in a folder that is there\n"
