"""Hostile use of the Python interface: exceptions at any moment, forks, threads that close, and what is no file.

Each attack is a script of its own, so that it may raise, fork and hang; the time that it may take is bounded.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from loader.exit_codes import EXIT_DATA, EXIT_USAGE
from tests.hostile.attack import assert_said_well
from tests.support.paths import ROOT, SAMPLE
from tests.support.runs import TOY, Ended, elsewhere
from tests.support.warm import call_pool

SECONDS = 60  # that a script may take on a busy machine

STREAM = """
import gc, itertools, os, random, signal, sys, threading, time
import sparsepool

rng = random.Random({seed})
settings = rng.choice((
    dict(files=[{data!r}], features="chess768", batch_size=64, threads=2),
    dict(source="synthetic", batch_size=32),
))
stream = sparsepool.batches(arrays="numpy", epochs=None, **settings)

class Interruption(BaseException): pass

def is_in_stream(frame):
    while frame is not None and not frame.f_code.co_filename.endswith("sparsepool/stream.py"):
        frame = frame.f_back
    return frame is not None
"""

STORM = """
def interrupt(number, frame):
    if is_in_stream(frame):
        raise Interruption

signal.signal(signal.SIGALRM, interrupt)
read = interruptions = 0
end = time.monotonic() + 2
signal.setitimer(signal.ITIMER_REAL, 0.001, rng.uniform(0.001, 0.01))
while time.monotonic() < end:
    try:
        for batch in stream:
            read += 1
            if time.monotonic() > end:
                break
    except Interruption:
        interruptions += 1
signal.setitimer(signal.ITIMER_REAL, 0)
numbers = [batch.number for batch in itertools.islice(stream, 20)]
assert numbers == list(range(numbers[0], numbers[0] + 20)), numbers  # no slot is lost, and none comes twice
stream.close()
print("well", read, interruptions)
"""

FORK = """
reader = iter(stream)
batch = next(reader)
kept = [field.tolist() for field in batch.dense.values()]
children = []
for how in ("close", "read", "forget", "end"):
    pid = os.fork()
    if pid == 0:
        if how == "close":
            stream.close()
        elif how == "read":
            try:
                next(reader)
            except sparsepool.SparsepoolError as error:
                assert "opened in another process" in str(error)
            else:
                os._exit(1)
        elif how == "forget":
            del stream, reader, batch
            gc.collect()
        else:
            assert [field.tolist() for field in batch.dense.values()] == kept
        sys.exit(0)
    children.append(pid)
for batch in itertools.islice(reader, 30):
    pass
assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0, 0]
assert next(reader).number == batch.number + 1
stream.close()
print("well")
"""

THREADS = """
def read():
    try:
        for batch in stream:
            pass
    except sparsepool.SparsepoolError as error:
        assert str(error) in ("the stream is closed", "another thread is reading this stream: open one for each thread")

threads = [threading.Thread(target=read) for _ in range(rng.randint(1, 3))]
threads += [threading.Thread(target=stream.close) for _ in range(rng.randint(2, 4))]
rng.shuffle(threads)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
native = stream._stream
closers = [threading.Thread(target=native.close) for _ in range(2)]
for thread in closers:
    thread.start()
for thread in closers:
    thread.join()

stream = sparsepool.batches(arrays="numpy", epochs=None, **settings)
signal.signal(signal.SIGALRM, lambda *_: stream.close())  # while a call is in flight, or not
signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.2))
try:
    for batch in stream:
        pass
except sparsepool.SparsepoolError as error:
    assert str(error) == "the stream is closed", error

left_open = sparsepool.batches(arrays="numpy", epochs=None, **settings)
next(iter(left_open))
print("well")
"""

TRAIN = """
import ctypes, os, random, signal, sys, threading
import sparsepool

rng = random.Random({seed})

class Interruption(BaseException): pass

def interrupt(*_):
    raise Interruption

signal.signal(signal.SIGALRM, interrupt)
how = rng.choice(("once", "storm", "thread", "output"))
if how == "thread":
    identity = threading.get_ident()
    inject = lambda: ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(identity), ctypes.py_object(Interruption)
    )
    timer = threading.Timer(rng.uniform(0.5, 4), inject)
    timer.daemon = True
    timer.start()
elif how == "output":
    class Full:
        def write(self, text):
            if rng.random() < 0.3:
                raise Interruption
        def flush(self): pass
    output, sys.stdout = sys.stdout, Full()
else:
    signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.01, 4), 0.02 if how == "storm" else 0)
try:
    sparsepool.train({settings!r}, quiet=how != "output")
except Interruption:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    if how == "output":
        sys.stdout = output
    print("well", how)
"""


def _run(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=elsewhere(), capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("well"), done.stdout
    return done.stderr


def _in_a_stream(attack: str, rng: random.Random, folder: Path) -> None:
    begin = STREAM.format(seed=rng.randrange(1 << 30), data=str(SAMPLE / "train.binpack"))
    assert _run(begin + attack, folder) == ""


def storm_of_interruptions(rng: random.Random, folder: Path) -> None:
    """The handler of a signal raises every few milliseconds while batches are read; then the stream goes on."""
    _in_a_stream(STORM, rng, folder)


def forks_with_a_stream(rng: random.Random, folder: Path) -> None:
    """Forked processes close the stream, read it, forget it or end; the parent's goes on."""
    _in_a_stream(FORK, rng, folder)


def threads_that_close(rng: random.Random, folder: Path) -> None:
    """Several threads close a stream that others read; a signal's handler closes one that its thread reads."""
    _in_a_stream(THREADS, rng, folder)


def exceptions_in_train(rng: random.Random, folder: Path) -> None:
    """Whatever leaves `sparsepool.train`, nothing goes on training."""
    run = folder / "run"
    settings = {
        **TOY,
        "train.steps": 1_000_000,
        "train.checkpoint_every": 0,
        "pool.devices": ["fake:0"],
        "run.dir": str(run),
    }
    _run(TRAIN.format(seed=rng.randrange(1 << 30), settings=settings), folder)
    assert_said_well(Ended(run, 0, "", ""))


def networks_that_are_no_files(rng: random.Random, folder: Path) -> None:
    """A pipe, a device, a hole or noise in the place of a network: one line, at once."""
    path = folder / f"x{rng.choice(('.nnue', '.pt', '.ckpt', '.bin', '.raw.bin', '.nnue.gz', ''))}"
    kind = rng.choice(("pipe", "device", "hole", "noise"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "hole":
        path.touch()
        os.truncate(path, 1 << rng.randint(33, 42))
    else:
        path.write_bytes(rng.choice((b"", b"PK\x03\x04", b"\x1f\x8b\x08\x00")) + rng.randbytes(rng.randrange(5000)))
    command = rng.choice((["eval", str(path), "--fen", "startpos"], ["inspect", str(path)]))
    done = call_pool(*command, cwd=ROOT, timeout=SECONDS)
    assert_said_well(
        Ended(folder / "run", done.returncode, done.stdout, done.stderr), codes=frozenset({EXIT_DATA, EXIT_USAGE})
    )


ATTACKS = (
    storm_of_interruptions,
    forks_with_a_stream,
    threads_that_close,
    exceptions_in_train,
    networks_that_are_no_files,
)
