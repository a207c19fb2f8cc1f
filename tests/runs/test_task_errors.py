"""Tasks, sources and optimizers of a user's own that fail in a real run: one line that says what, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from loader.errors import DataError
from pool.errors import PoolError
from pool.export import export, load
from tests.support.runs import TOY, Ended, WholeRun, run
from tests.support.tasks import hostile_task
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask

SHORT = {**TOY, "train.steps": 6, "train.checkpoint_every": 2}
BAD = 'raise ValueError("bad value")'
PLACE = f"{hostile_task.MODEL}.py:"


@pytest.fixture(scope="module")
def whole(whole_run: WholeRun) -> Ended:
    return whole_run(SHORT)


def one_line(ended: Ended, code: int, *told: str) -> None:
    assert ended.code == code, f"{ended.out}\n{ended.err}"
    assert len(ended.err.splitlines()) == 1, ended.err
    for text in told:
        assert text in ended.err


def test_a_loss_that_raises_in_two_lives_ends_the_run_with_type_text_place_and_log(tmp_path: Path) -> None:
    settings = {**SHORT, **hostile_task.write(tmp_path, BAD, at=6)}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    one_line(ended, 1, "pool: batch 6 of step 3: it failed 2 times, in different processes: ValueError: bad value (")
    assert f"{tmp_path}/{PLACE}" in ended.err
    assert ", in mischief); traceback in " in ended.err
    log = Path(ended.err.partition("traceback in ")[2].partition(";")[0])
    assert log.is_relative_to(tmp_path / "run/logs")
    assert "Traceback (most recent call last)" in log.read_text()
    assert ended.out.count("ValueError: bad value") == 2, "each life is told, and there are no more"
    assert 'train.on_bad_batch = "skip" would leave it out' in ended.err


def test_an_exception_that_does_not_come_again_leaves_the_bits_as_they_are(whole: Ended, tmp_path: Path) -> None:
    settings = {**SHORT, **hostile_task.write(tmp_path, BAD, at=5, once=True), "pool.restarts": 0}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "it was computing batch 5, traceback in " in ended.out
    assert "restarted; a batch that raises twice is not tried again" in ended.out
    assert ended.digest() == whole.digest()


COUNTING = """
with open("calls", "a") as file:
    file.write("x")
if os.path.getsize("calls") {condition}:
    raise ValueError("bad value")
"""


def test_a_task_that_changes_weights_in_place_is_told_with_its_line_and_the_cause(tmp_path: Path) -> None:
    code = "with torch.no_grad():\n    model.output.weight.mul_(0.99)\nreturn usual()"
    one_thread = {"pool.threads": 1}  # a SIGSEGV in several at once may leave no line
    settings = {**SHORT, **hostile_task.write(tmp_path, code, at=6), "pool.restarts": 0, **one_thread}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    assert ended.code == 75, ended.out + ended.err
    line = next(line for line in ended.err.splitlines() if "was killed by SIGSEGV in mischief (" in line)
    assert PLACE in line
    assert "as a task does that changes weights or a batch in place: workers may only read them; a batch's" in line


@pytest.mark.parametrize(("condition", "code"), [("== 5", 0), (">= 5", 1)])
def test_after_step_that_raises_is_tried_in_one_more_life_of_the_coordinator(
    condition: str, code: int, whole: Ended, tmp_path: Path
) -> None:
    settings = {**SHORT, **hostile_task.write(tmp_path, COUNTING.format(condition=condition), method="after_step")}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    assert "coordinator (incarnation 1) raised ValueError: bad value (" in ended.out
    if code == 0:
        assert (ended.code, ended.digest()) == (0, whole.digest()), ended.err
    else:
        one_line(
            ended, 1, "raised ValueError: bad value (", PLACE, "coordinator-0.log; the same exception ended it before"
        )
        assert ended.err.startswith(("pool: coordinator (incarnation 2)", "pool: coordinator (incarnation 3)"))


def test_an_exception_at_the_start_of_a_process_is_not_tried_again(tmp_path: Path) -> None:
    settings = {**SHORT, **hostile_task.write(tmp_path, BAD, method="initialize")}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    one_line(ended, 1, "coordinator (incarnation 1) raised ValueError: bad value (", PLACE, "it never got ready")


VALIDATED = """
from loader.stream.synthetic import SyntheticSource
class Mine(SyntheticSource):
    def open(self, config, files, seed):
        return super().open(config, (), seed)
"""


def test_a_validation_that_raises_ends_the_run_for_no_batch_of_it_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "my_source.py").write_text(VALIDATED, encoding="utf-8")
    settings = {
        **SHORT,
        **hostile_task.write(tmp_path, BAD, method="validate", at=1),
        "data.source": "my_source:Mine",
        "data.validation": [str(tmp_path / "my_source.py")],
        "train.validate_every": 2,
        "train.on_bad_batch": "skip",
    }
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    one_line(ended, 1, "validation batch 1 of version 0: it failed 2 times", "ValueError: bad value", PLACE)


SOURCE = """
from loader.stream.synthetic import SyntheticSource
class Mine(SyntheticSource):
    def open(self, config, files, seed):
        stream = super().open(config, files, seed)
        take = stream.take
        def bad_take():
            filled = take()
            if filled and filled.batch >= 7:
                raise KeyError("no such row")
            return filled
        stream.take = bad_take
        return stream
"""


def test_a_source_that_raises_is_one_line_after_another_life(tmp_path: Path) -> None:
    (tmp_path / "my_source.py").write_text(SOURCE, encoding="utf-8")
    settings = {**SHORT, "train.steps": 100, "data.source": "my_source:Mine"}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    one_line(
        ended,
        1,
        "feeder (incarnation ",
        "raised data.source: my_source:Mine: KeyError: 'no such row' (",
        "my_source.py:10, in bad_take)",
    )


STOPS_THE_SUPERVISOR = '''
import os, signal, subprocess, sys
from pathlib import Path
from tests.support.toy import LossConfig, ModelConfig
RAISED, STOPPED = Path("raised"), Path("stopped")
def create_task(model, loss):
    from tests.support.toy_model import ToyTask
    class Task(ToyTask):
        def loss(self, model, batch, progress):
            if batch.number == 4:
                RAISED.touch()
                raise ValueError("bad value")
            return super().loss(model, batch, progress)
    if RAISED.exists() and not STOPPED.exists():  # the second life of the worker
        STOPPED.touch()
        supervisor, worker = os.getppid(), os.getpid()
        helper = f"""if True:
            import os, signal, time
            while os.getppid() == {worker}:
                time.sleep(0.01)
            os.kill({supervisor}, signal.SIGCONT)"""
        subprocess.Popen([sys.executable, "-c", helper], start_new_session=True)  # or it would end with the worker
        os.kill(supervisor, signal.SIGSTOP)
    return Task(model, loss)
'''


def test_a_worker_that_raises_before_the_supervisor_has_heard_of_it_was_ready(tmp_path: Path) -> None:
    """The supervisor stands still from the second life's start until its death: its Hello is never heard."""
    (tmp_path / "stopping_task.py").write_text(STOPS_THE_SUPERVISOR, encoding="utf-8")
    settings = {**SHORT, "task": "stopping_task", "pool.devices": ["fake:0"], "train.on_bad_batch": "skip"}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert (tmp_path / "stopped").exists()
    assert "batch 4 of step 2: it failed 2 times, in different processes: ValueError: bad value" in ended.out


class BadExport(ToyTask):
    error: Exception

    def export(self, model: nn.Module, path: Path, description: str) -> None:  # noqa: ARG002
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("bad value"), f"out: not written: KeyError: 'bad value' ({__file__}:"),
        (ValueError("bad value"), "out: not written: bad value"),
        (DataError("out", "can't be written"), "out: can't be written"),
    ],
)
def test_an_export_that_raises_is_one_line(
    error: Exception, said: str, whole: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = BadExport(ModelConfig(), LossConfig())
    task.error = error
    monkeypatch.setattr(load, "make_task", lambda *_: task)
    with pytest.raises(PoolError) as found:
        export.export_checkpoint(whole.dir / "checkpoints/last", Path("out"), "", "tests.support.toy")
    assert str(found.value).startswith(said)


RAISES_BETWEEN_BATCHES = """
from pathlib import Path
from tests.support.toy import LossConfig, ModelConfig
RAISED = Path("raised")
def create_task(model, loss):
    from pool.worker.mailbox import Mailbox
    from tests.support.toy_model import ToyTask
    class Task(ToyTask):
        def loss(self, model, batch, progress):
            if batch.number == 4:
                RAISED.touch()
                raise ValueError("bad value")
            return super().loss(model, batch, progress)
    def start(self):
        raise KeyError("between batches")
    if RAISED.exists():  # every later life of the worker
        Mailbox.start = start
    return Task(model, loss)
"""


def test_a_worker_that_raises_before_its_first_batch_does_not_hold_that_of_its_last_life(tmp_path: Path) -> None:
    """Deaths in a batch are bounded by what becomes of the batch, others by the budget."""
    (tmp_path / "odd_lives.py").write_text(RAISES_BETWEEN_BATCHES, encoding="utf-8")
    settings = {**SHORT, "task": "odd_lives", "pool.devices": ["fake:0"]}
    ended = run(tmp_path / "run", settings, cwd=tmp_path, timeout=60)
    one_line(ended, 1, "KeyError: 'between batches'", "the same exception ended it before")
    assert ended.out.count("it was computing batch 4") == 1
