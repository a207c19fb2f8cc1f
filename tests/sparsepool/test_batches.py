"""`sparsepool.batches`: the stream of the pool for anybody's loop, and views that say when they are over."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sparsepool
from loader.errors import DataError
from loader.stream.config import DataConfig
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import source_config_class
from pool.nn.sparse_linear import SparseLinear
from sparsepool import SparsepoolError
from tests.support.paths import ROOT
from tests.support.wait import wait_for

SMALL: dict[str, Any] = {"features": "chess768", "batch_size": 64, "threads": 1}
MADE_UP: dict[str, Any] = {"source": "synthetic", "num_features": 100, "max_active": 4, "batch_size": 8}


def test_importing_it_and_reading_arrays_costs_no_torch() -> None:
    code = (
        "import sys, sparsepool\n"
        "print(*{'torch', 'numpy', 'pydantic', 'typer'} & set(sys.modules))\n"
        "with sparsepool.batches(source='synthetic', arrays='numpy', batch_size=8) as stream:\n"
        "    print(next(iter(stream)).number, 'torch' in sys.modules)\n"
        "with sparsepool.batches(source='synthetic', batch_size=8) as stream:\n"
        "    print(next(iter(stream)).number, 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["", "0 False", "0 True"]


def test_batches_are_those_of_the_loader(games: list[Path]) -> None:
    config = source_config_class("chess", DataConfig).model_validate(
        {"batch_size": 64, "chess": {"features": "chess768"}}
    )
    expected = open_stream(config, games, 7)
    with sparsepool.batches(games, seed=7, epochs=3, arrays="numpy", **SMALL) as stream:
        found = 0
        for one, other in zip(stream, read_batches(expected, 20), strict=False):
            assert one.number == other.number
            for field in ("offsets", "features", "touched", "touched_offsets", "bags"):
                np.testing.assert_array_equal(
                    getattr(one.sparse["features"], field), getattr(other.sparse["features"], field)
                )
            np.testing.assert_array_equal(one.dense["score"], other.dense["score"])
            found += 1
    expected.close()
    assert found == 20


def test_tensors_are_views_that_a_layer_takes() -> None:
    layer = SparseLinear(100, 3, field="features")
    with sparsepool.batches(**MADE_UP) as stream, sparsepool.batches(arrays="numpy", **MADE_UP) as arrays:
        for tensors, plain in islice(zip(stream, arrays, strict=False), 20):
            np.testing.assert_array_equal(tensors.dense["target"].numpy(), plain.dense["target"])
            layer(tensors.sparse["features"]).sum().backward()
    assert layer.weight.grad is not None


def test_a_for_loop_is_one_pass_and_the_next_goes_on_in_another_order(games: list[Path]) -> None:
    whole = list(range(1 << 16))
    with sparsepool.batches(games, tail="drop", **SMALL) as stream:
        first = [(batch.number, *batch.dense["score"].tolist()) for batch in stream]
        assert stream.cursor.epoch <= 1
        second = [(batch.number, *batch.dense["score"].tolist()) for batch in stream]
    assert [scores[0] for scores in (*first, *second)] == whole[: len(first) + len(second)]
    assert len(first) == len(second) > 5
    assert [scores[1:] for scores in first] != [scores[1:] for scores in second]
    with sparsepool.batches(games, tail="drop", epochs=2, **SMALL) as stream:
        assert [(batch.number, *batch.dense["score"].tolist()) for batch in stream] == [*first, *second]
    settings = {**SMALL, "batch_size": 1}
    with sparsepool.batches(games, tail="drop", **settings) as one, sparsepool.batches(games, **settings) as other:
        assert len(list(one)) == len(list(other)) == len(list(other))  # nothing is left at the end of a pass
    with sparsepool.batches(games, epochs=None, **SMALL) as endless:
        assert len(list(islice(endless, 100))) == 100


def test_files_are_patterns_paths_or_several_and_filters_leave_positions_out(games: list[Path]) -> None:
    def count(files: Any, **settings: Any) -> int:
        with sparsepool.batches(files, **{**SMALL, "batch_size": 8, "tail": "drop", **settings}) as stream:
            return sum(1 for _ in stream)

    whole = count(games)
    assert count(str(games[0].with_name("games*.binpack"))) == whole
    assert count(games[0]) + count(games[1]) == pytest.approx(whole, abs=2)
    assert count(games, filters={"skip_captures": True}) < whole
    assert count(games, data={"chess": {"filters": {"skip_captures": True}}}) == count(
        games, filters={"skip_captures": True}
    )


def test_it_goes_on_where_another_one_stopped(games: list[Path]) -> None:
    with sparsepool.batches(games, epochs=None, **SMALL) as stream:
        list(islice(stream, 9))
        cursor = stream.cursor
        expected = [batch.dense["score"].tolist() for batch in islice(stream, 9)]
    with sparsepool.batches(games, epochs=None, start=cursor, **SMALL) as stream:
        assert [batch.dense["score"].tolist() for batch in islice(stream, 9)] == expected


@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_a_batch_that_is_over_says_so_and_its_copy_stays(arrays: Any) -> None:
    with sparsepool.batches(arrays=arrays, **MADE_UP) as stream:
        reader = iter(stream)
        first: Any = next(reader)
        kept, target = first.copy(), first.dense["target"].tolist()
        next(reader)
        for field in ("dense", "sparse"):
            with pytest.raises(
                SparsepoolError, match=r"batch 0 is used after the next one .*keep a copy.*batch\.copy\(\)"
            ):
                dict(getattr(first, field))
        for _ in range(30):
            last: Any = next(reader)
        assert kept.dense["target"].tolist() == target
        assert kept.sparse["features"].offsets.tolist()[0] == 0
    with pytest.raises(SparsepoolError, match="or the stream closed"):
        last.dense["target"]
    assert kept.dense["target"].tolist() == target


def test_the_last_batch_of_a_pass_lives_behind_the_loop(games: list[Path]) -> None:
    with sparsepool.batches(games, **SMALL) as stream:
        *_, batch = stream
        assert batch.dense["score"].shape == (64,)


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize("how", ["close", "forget", "error"])
def test_nothing_of_it_is_left(how: str, games: list[Path]) -> None:
    gc.collect()
    threads, descriptors = threading.active_count(), open_descriptors()
    stream = sparsepool.batches(games, **SMALL)
    tasks = len(os.listdir("/proc/self/task"))  # noqa: PTH208
    memory = weakref.ref(stream)
    batch = next(iter(stream)).copy()
    if how == "close":
        stream.close()
        stream.close()
    elif how == "error":
        with pytest.raises(ZeroDivisionError), stream:
            assert batch.number // 0
    if how != "forget":
        with pytest.raises(SparsepoolError, match="the stream is closed"):
            next(iter(stream))
    del stream
    gc.collect()
    assert memory() is None
    assert open_descriptors() == descriptors
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/task")) < tasks  # noqa: PTH208


class Waiting:
    """A stream that never has a batch."""

    schema = open_stream(source_config_class("synthetic", DataConfig)(source="synthetic", batch_size=8), [], 0).schema

    def __init__(self) -> None:
        self._event = os.eventfd(0)
        self.asked = threading.Event()
        self.closed = False

    def attach(self, slots: Any) -> None: ...
    def give(self, slot: int) -> None: ...
    def take(self) -> None:
        self.asked.set()

    def fileno(self) -> int:
        return self._event

    def close(self) -> None:
        os.close(self._event)
        self.closed = True


def test_one_thread_reads_at_a_time_and_another_may_close() -> None:
    waiting: Any = Waiting()
    stream: Any = sparsepool.Batches(waiting, lambda batch: batch, None)
    errors = []

    def read() -> None:
        try:
            next(iter(stream))
        except SparsepoolError as error:
            errors.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    assert waiting.asked.wait(30)
    wait_for(lambda: bool(stream._reader), "the reader waits")
    with pytest.raises(SparsepoolError, match="another thread is reading this stream: open one for each thread"):
        next(iter(stream))
    stream.close()
    reader.join(30)
    assert errors == ["the stream is closed"]
    assert waiting.closed


FORKED = """
import gc, os, signal, sys
import sparsepool
stream = sparsepool.batches({files!r}, arrays="numpy", epochs=None, features="chess768", batch_size=64, threads=2)
reader = iter(stream)
batch = next(reader)
kept = batch.dense["score"].tolist()
codes = []
for how in ("close", "read", "forget"):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        if how == "close":
            stream.close()
        elif how == "read":
            try:
                next(reader)
            except sparsepool.SparsepoolError as error:
                assert "opened in another process" in str(error)
            assert batch.dense["score"].tolist() == kept
        else:
            del stream, reader, batch
            gc.collect()
        sys.exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(codes, [next(reader).number for _ in range(20)] == list(range(1, 21)))
"""


def test_a_forked_process_ends_and_does_nothing_to_the_stream(games: list[Path]) -> None:
    script = FORKED.format(files=[str(path) for path in games])
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[0, 0, 0] True\n", "")


def test_several_threads_close_at_once(games: list[Path]) -> None:
    for _ in range(30):
        stream = sparsepool.batches(games, epochs=None, arrays="numpy", **SMALL)
        native: Any = stream._stream
        closers = [threading.Thread(target=close) for close in (*[stream.close] * 3, *[native.close] * 2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(30)
            assert not closer.is_alive()
        assert not stream._close_stream.alive


def test_a_call_in_flight_gives_back_what_a_signals_handler_closes() -> None:
    """The handler runs in the thread that reads, which would wait for itself."""
    waiting: Any = Waiting()
    stream: Any = sparsepool.Batches(waiting, lambda batch: batch, None)
    before = signal.signal(signal.SIGALRM, lambda *_: stream.close())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(SparsepoolError, match="the stream is closed"):
            next(iter(stream))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert waiting.closed


def test_a_call_that_an_exception_has_ended_keeps_nobody_from_closing() -> None:
    """Its note that a thread reads may have stayed."""
    waiting: Any = Waiting()
    stream: Any = sparsepool.Batches(waiting, lambda batch: batch, None)
    stream._reader[None] = threading.get_ident()
    stream.close()
    assert waiting.closed


def test_a_forked_process_is_told_to_open_its_own() -> None:
    with sparsepool.batches(**MADE_UP) as stream:
        next(iter(stream))
        stream._process += 1
        with pytest.raises(SparsepoolError, match="opened in another process"):
            next(iter(stream))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"batch_size": 0}, "batches: data.batch_size: input should be greater than 0, not 0 (samples of a batch)"),
        (
            {"featurez": 3},
            "batches: data.chess.featurez: unknown key; allowed here: features, king_buckets, output_buckets, "
            "score_view, result_view, filters, pgn",
        ),
        ({"features": "no"}, "data.chess.features: 'no' is none of HalfKAv2_hm"),
        ({"source": "x"}, "data.source: no family of records 'x'; allowed: chess"),
        ({"filters": {"skip_in_check": 3}}, "data.chess.filters.skip_in_check: input should be a valid boolean"),
        ({"files": "/no*"}, "files: no file matches '/no*'"),
        ({"files": ()}, "no file is given"),
        ({"arrays": "jax"}, "arrays: must be 'torch' or 'numpy', not 'jax'"),
        ({"epochs": 0}, "epochs: must be 1 or more, or None"),
        ({"batch_size": object()}, "is of type object: settings are numbers, texts"),
    ],
)
def test_settings_that_can_not_be_are_one_line(settings: dict[str, Any], complaint: str, games: list[Path]) -> None:
    with pytest.raises(SparsepoolError) as error:
        sparsepool.batches(**{"files": games, **settings})
    assert complaint in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert error.value.exit_code == 2


def test_damaged_data_names_file_and_offset(games: list[Path], tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.binpack"
    content = bytearray(games[0].read_bytes())
    content[len(content) // 2 :] = b"x" * (len(content) - len(content) // 2)
    damaged.write_bytes(content)
    with (
        pytest.raises(SparsepoolError, match=rf"{damaged}: offset \d+: ") as error,
        sparsepool.batches(damaged, epochs=None, **SMALL) as stream,
    ):
        for _ in stream:
            pass
    assert error.value.exit_code == 65
    assert isinstance(error.value.__cause__, DataError)
    with sparsepool.batches(damaged, epochs=None, on_bad_data="skip", **SMALL) as stream:
        next(iter(stream))
        assert [each.file for each in stream.skipped()] == [str(damaged)]


def test_a_copy_of_a_field_has_all_of_it() -> None:
    with sparsepool.batches(**MADE_UP) as stream:
        for batch in islice(stream, 2):
            for name in ("offsets", "features", "touched", "touched_offsets", "bags"):
                own, copied = (getattr(each.sparse["features"], name) for each in (batch, batch.copy()))
                assert torch.equal(own.long(), copied.long())
                assert own.data_ptr() != copied.data_ptr()


def test_a_field_that_is_not_there_is_told_which_are() -> None:
    for opened in (sparsepool.batches(**MADE_UP), sparsepool.batches(arrays="numpy", **MADE_UP)):
        with opened as stream:
            batch = next(iter(stream))
            for fields in (batch.sparse, batch.copy().sparse):
                with pytest.raises(KeyError, match="the batch has no field 'colour' of this kind; there are features"):
                    fields["colour"]
            with pytest.raises(KeyError, match="'price' of this kind; there are target"):
                batch.dense["price"]
            assert "{features}" in repr(batch)
        assert "{taken back}" in repr(batch)


INTERRUPTED = """
import signal, sparsepool, sys

class Alarm(BaseException):
    pass

def raise_alarm(*_):
    raise Alarm

signal.signal(signal.SIGALRM, raise_alarm)
for attempt in range(12):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01 + 0.005 * attempt)
        with sparsepool.batches(sys.argv[1], features="chess768", batch_size=16) as stream:
            for batch in stream:
                pass
    except Alarm:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
with sparsepool.batches(sys.argv[1], features="chess768", batch_size=16) as stream:
    print(next(iter(stream)).number)
"""


def test_a_signal_during_an_import_leaves_it_whole() -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(ROOT / "configs/sample/train.binpack")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]
