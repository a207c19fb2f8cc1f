"""Seeded races and waits, each of which the fake GPU must find, as `tests/chaos/mutants.py` does for the rest.

Each names a mode that finds it in every run: one in which the order of the streams does not depend on how fast threads
are. Random delays are for the sound code alone.

`python -m tests.gpu.fake.races [--finds N] [--runs N] [--sound]` says in how many of N runs each was found, then runs
the sound code N times in each mode, with --sound that alone; exits with 1 if a run has not found its bug, or if one of
the sound code gave other numbers.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import threading
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.gpu.fake import fakegpu
from tests.gpu.fake.rig import MODES, Code, Done, Mode, TakingRig, difference, inputs

MODULES = {
    "event_waiter": "pool.device.event_waiter",
    "batches": "pool.device.batches",
    "coordinator": "pool.exchange.device.coordinator",
    "copies": "pool.coordinator.exchange_setup.copies",
    "owners": "pool.exchange.device.owners",
    "host": "pool.exchange.host.coordinator",
    "step": "pool.worker.compute",
    "store": "pool.exchange.device.store",
    "weights": "pool.exchange.device.weights",
    "worker": "pool.exchange.device.worker",
}

Wanted = Mapping[int, list[Done]]  # by batches of a group


@dataclass(frozen=True)
class Race:
    """`old` occurs exactly once in the module; `new` takes its place. Each run in `mode` with groups of several batches
    finds it."""

    name: str
    module: str  # of MODULES
    old: str
    new: str
    mode: str = "only what is waited for"


RACES = (
    # --- batches ---
    Race(
        "batch is not waited for", "batches", "        current.wait_event(self._copied)\n", "", mode="batches are late"
    ),
    Race(
        "batch's memory is not recorded on the stream that computes",
        "batches",
        "self._memory.record_stream(current)",
        "",
    ),
    Race(
        "ring slot is free before it is copied",
        "batches",
        "self._event_waiter.call_after(self._read, on_read)",
        "on_read()",
    ),
    Race(
        "event of a batch is recorded on the stream that computes",
        "batches",
        "copied = self._stream.record_event()",
        "copied = torch.accelerator.current_stream(self._device).record_event()",
        mode="batches are late",
    ),
    Race(
        "event that frees a ring slot is recorded on the stream that computes",
        "batches",
        "record_host_event(self._stream)",
        "record_host_event(torch.accelerator.current_stream(self._device))",
    ),
    Race(
        "event of a batch is recorded before its copy",
        "batches",
        "            memory.copy_(torch.from_numpy(slot[:used]), non_blocking=True)\n",
        "            self._early = self._stream.record_event()\n"
        "            memory.copy_(torch.from_numpy(slot[:used]), non_blocking=True)\n"
        "        events = self._early, self._early\n"
        "        return DeviceBatch(_view_copy(batch, slot, memory), memory, *events, self._event_waiter)\n",
    ),
    Race(
        "batch is copied on the stream that computes, its event on another",
        "batches",
        "        with self._stream:\n",
        "        if True:\n",
    ),
    Race("batch is copied while the host waits", "batches", "non_blocking=True", "non_blocking=False"),
    Race("batch is copied from memory that is not page-locked", "batches", "slot[:used])", "slot[:used].copy())"),
    # --- weights ---
    Race("weights are not waited for", "weights", "        current.wait_stream(inward)\n", ""),
    Race("weights of the other version", "weights", "self._halves[version % 2]", "self._halves[1 - version % 2]"),
    Race(
        "weights are copied while the host waits",
        "weights",
        "source[span], non_blocking=True)",
        "source[span])",
    ),
    # --- gradients ---
    Race(
        "gradient is copied before it is there",
        "worker",
        "    def hand_over(self, bucket: Bucket, on_done: Callable[[], object]) -> Mapping[int, Tensor]:\n"
        "        self._streams.outward.wait_stream(self._streams.current_stream)\n",
        "    def hand_over(self, bucket: Bucket, on_done: Callable[[], object]) -> Mapping[int, Tensor]:\n",
    ),
    Race(
        "gradient's memory is not recorded on the stream that copies",
        "worker",
        "gradient.record_stream(self._streams.outward)",
        "",
        mode="outward is late",
    ),
    Race(
        "bucket is announced before its copies are done",
        "worker",
        "self._event_waiter.call_after(record_host_event(self._streams.outward), on_done)",
        "on_done()",
    ),
    Race(
        "event of a bucket is recorded on the stream that computes",
        "worker",
        "self._event_waiter.call_after(record_host_event(self._streams.outward), on_done)",
        "self._event_waiter.call_after(record_host_event(self._streams.current_stream), on_done)",
    ),
    Race(
        "event of a bucket is recorded before its copies",
        "worker",
        "        with self._streams.outward:\n            for parameter, (gradient, slot_gradient) in pairs.items():\n",
        "        self._event_waiter.call_after(record_host_event(self._streams.outward), on_done)\n"
        "        on_done = type(None)\n"
        "        with self._streams.outward:\n            for parameter, (gradient, slot_gradient) in pairs.items():\n",
    ),
    Race(
        "gradient is copied while the host waits",
        "worker",
        "slot_gradient.copy_(source, non_blocking=True)",
        "slot_gradient.copy_(source)",
    ),
    Race(
        "gradient goes to the slot of the batch before",
        "worker",
        "        self._slot, self._batch_index, self._gradients = slot, -1, {}\n",
        "        self._slot, self._batch_index, self._gradients = 1 - slot, -1, {}\n",
    ),
    Race(
        "rows of a batch before",
        "worker",
        "        self._group = Group(batches, self._member_of)\n",
        "        self._group = self._group if self._group.batches else Group(batches, self._member_of)\n",
    ),
    Race(
        "touched rows are read as if they were all rows",
        "host",
        "self.compact = frozenset(compact)",
        "self.compact = frozenset()",
    ),
    # --- groups ---
    Race("places of a group's rows are copied while the host waits", "worker", "total], non_blocking=True", "total]"),
    Race("places of a group's rows are not page-locked", "worker", "int64, pin_memory=True", "int64"),
    Race(
        "a batch's gradient takes the place of those before it",
        "worker",
        "return gradient if group_sum is None else group_sum + gradient",
        "return gradient",
    ),
    # --- buffers ---
    Race(
        "buffers are copied on a stream that nobody waits for",
        "worker",
        "        with self._streams.outward:\n            for spans in self._buffer_spans",
        "        with torch.Stream(device=self._streams.device):\n            for spans in self._buffer_spans",
    ),
    Race(
        "buffers are overwritten by the group's next batch before they are copied",
        "weights",
        "        inward.wait_stream(self._streams.outward)",
        "        ",
        mode="outward is late",
    ),
    # --- loss and flags ---
    Race(
        "loss is copied before it is there",
        "worker",
        "        self._streams.outward.wait_stream(self._streams.current_stream)\n"
        "        with self._streams.outward:\n            host_results.copy_(",
        "        with self._streams.outward:\n            host_results.copy_(",
    ),
    Race(
        "loss is read before it is copied",
        "worker",
        "self._event_waiter.wait(record_host_event(self._streams.outward, spins=self._spins))",
        "self._streams.outward.record_event()",
    ),
    Race(
        "loss is waited for on the wrong stream",
        "worker",
        "self._event_waiter.wait(record_host_event(self._streams.outward, spins=self._spins))",
        "self._event_waiter.wait(record_host_event(self._streams.inward, spins=self._spins))",
    ),
    Race("loss is copied to memory that is not page-locked", "worker", "uint8, pin_memory=True", "uint8"),
    Race(
        "loss is read in backward",
        "step",
        "            losses.backward(",
        "            losses.sum().item()\n            losses.backward(",
    ),
    Race(
        "flags are read in backward",
        "worker",
        "return self._outcomes.check(gradient, rounded_to)",
        "return bool(self._outcomes.check(gradient))",
    ),
    # --- the thread that waits for events ---
    Race(
        "what waits for an event is done before it", "event_waiter", "                pending.event.synchronize()\n", ""
    ),
    Race(
        "the end of a batch does not wait for what was given before",
        "event_waiter",
        "        completion.result()\n",
        "        event.synchronize()\n",
    ),
)


def broken(race: Race) -> Code:
    """The code with the bug."""
    return Code(**{race.module: with_bug(race)})


def with_bug(race: Race) -> types.ModuleType:
    """Returns a copy of the race's module with the bug."""
    real = importlib.import_module(MODULES[race.module])
    text = text_of_module(race.module)
    assert text.count(race.old) == 1, f"{race.name}: the old text must occur once in {real.__file__}"
    copy = types.ModuleType(real.__name__)
    copy.__file__ = real.__file__
    exec(compile(text.replace(race.old, race.new), f"{race.module} with a bug", "exec"), copy.__dict__)
    return copy


def text_of_module(module: str) -> str:
    """Returns the source of a module of `MODULES`."""
    file = importlib.import_module(MODULES[module]).__file__
    assert file is not None
    return Path(file).read_text(encoding="utf-8")


def observed(code: Code, mode: Mode, seed: int, wanted: Wanted) -> str:
    """What is wrong with the numbers, the waits or the copies of a run; empty if nothing is. Every other seed has
    groups of several batches."""
    mode.begin(seed)
    batches_per_group = 1 + seed % 2
    rig = TakingRig(inputs(), f"fakegpu:{seed // 2 % 2}", code, batches_per_group=batches_per_group)
    own = rig.event_waiter.native_id
    rig.make_late(mode.late)
    try:
        if what := rig.reuse():
            return what
        before, waits = fakegpu.counters(), fakegpu.waits_by_thread()
        found = rig.train()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
    finally:
        rig.close()
    others = {thread for thread, count in fakegpu.waits_by_thread().items() if count > waits.get(thread, 0)} - {own}
    if others:
        return f"{'this thread' if threading.get_native_id() in others else 'autograd'} waits for the device"
    if pageable := (fakegpu.counters() - before).pageable_copies:
        return f"{pageable} pageable copies"
    return difference(found, wanted[batches_per_group])


def found_by(race: Race, wanted: Wanted, run: int = 0) -> str:
    """What a run in the race's mode notices; empty if nothing. Odd seeds have groups of several batches."""
    return observed(broken(race), MODES[race.mode], 1 + 2 * run, wanted)


def expected() -> Wanted:
    """By a CPU. Sets what a worker sets."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return {k: TakingRig(inputs(), "cpu", batches_per_group=k).train() for k in (1, 2)}


def report(race: Race, found: Sequence[str]) -> bool:
    """Prints what each run has noticed; whether all have."""
    finds = [what for what in found if what]
    how = f"{len(finds)} of {len(found)} runs, {race.mode}"
    print(f"{race.name:72} {'' if len(finds) == len(found) else 'MISSED: '}{how}: {finds[:1] or ''}", flush=True)
    return len(finds) == len(found)


def no_alarm(how: str, runs: Iterable[str]) -> bool:
    """Prints what runs of the sound code have noticed; whether none has noticed anything."""
    found = list(runs)
    alarms = [what for what in found if what]
    print(f"sound code, {how}: {len(alarms)} alarms in {len(found)} runs {alarms[:1] or ''}", flush=True)
    return not alarms


def parsed(prog: str, description: str | None) -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    parser.add_argument("--finds", type=int, default=5, help="runs with each bug")
    parser.add_argument("--runs", type=int, default=3, help="of the sound code in each mode")
    parser.add_argument("--sound", action="store_true", help="the sound code alone")
    return parser.parse_args()


def main() -> int:
    arguments = parsed("tests.gpu.fake.races", __doc__)
    wanted, well = expected(), True
    for race in () if arguments.sound else RACES:
        well &= report(race, [found_by(race, wanted, run) for run in range(arguments.finds)])
    for name, mode in MODES.items():
        well &= no_alarm(name, (observed(Code(), mode, seed, wanted) for seed in range(arguments.runs)))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
