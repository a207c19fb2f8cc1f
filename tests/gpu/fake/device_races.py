"""Seeded races and waits of the exchange on a device, each of which the fake GPU must find, as in `races`.

`python -m tests.gpu.fake.device_races [--finds N] [--runs N] [--sound]` does what that of `races`
does, for each kind of worker.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import torch

from tests.gpu.fake.races import Race, broken, no_alarm, parsed, report
from tests.gpu.fake.rig import MODES, Code, Mode, inputs
from tests.gpu.fake.stepping_rig import PER_STEP, STEPS, Kind, SteppingRig, Trained

KINDS: tuple[Kind, ...] = ("local", "one process", "remote", "shared", "shared rows")
DEVICE_MODES = {
    **{name: MODES[name] for name in ("at once", "slow bus", "only what is waited for", "short delays")},
    "the worker's copies are late": Mode(late="outward"),
    "the worker's computing is late": Mode(late="here"),
    "stepping is late": Mode(late="here of the first"),
    "stepping on the last device is late": Mode(late="here of the last"),
    "snapshots are late": Mode(late="copies"),
}


@dataclass(frozen=True)
class Local(Race):
    """It shows where the worker is on the coordinator's device."""

    kind: Kind = "local"


@dataclass(frozen=True)
class OneProcess(Race):
    """It shows where the worker is in the coordinator's process."""

    kind: Kind = "one process"


@dataclass(frozen=True)
class Remote(Race):
    """It shows where the worker is on another one."""

    kind: Kind = "remote"


@dataclass(frozen=True)
class Shared(Race):
    """It shows where shards are divided over two devices."""

    kind: Kind = "shared"


DeviceRace = Local | OneProcess | Remote | Shared
Wanted = Mapping[tuple[int, bool], Trained]  # by batches of a group, and whether untouched rows are left alone

DEVICE_RACES: tuple[DeviceRace, ...] = (
    # --- what the host waits for ---
    Remote(
        "a version is published before it is made",
        "store",
        "        record_host_event(current, spins=self._spins).synchronize()\n",
        "",
    ),
    Remote(
        "a version is published before it is copied to other devices",
        "store",
        "(store.current_stream, store._receiving, store._outward)",
        "(store.current_stream, store._receiving)",
    ),
    Remote("nothing is ever waited for", "store", "        self.is_idle = False\n", ""),
    Local(
        "the host waits for each part that is added",
        "coordinator",
        "        self._owner.retain()\n        return addends",
        "        self._owner.retain()\n        self._owner.wait()\n        return addends",
    ),
    # --- what one process waits for on the device ---
    OneProcess(
        "gradients are added before they are there",
        "store",
        "            self.current_stream.wait_stream(self._shared_streams.writing)\n",
        "            pass\n",
        mode="the worker's copies are late",
    ),
    OneProcess(
        "a version is waited for on a stream that does not make it",
        "store",
        "SharedStreams(self.current_stream, torch.Stream(device=device))",
        "SharedStreams(torch.Stream(device=device), torch.Stream(device=device))",
    ),
    OneProcess(
        "a version is computed with before it is made",
        "weights",
        "            current.wait_stream(streams.stepping)\n",
        "            pass\n",
    ),
    OneProcess(
        "a ring slot is filled again before its list of rows is copied",
        "store",
        "            record_host_event(self._inward, spins=self._spins).synchronize()\n",
        "            pass\n",
    ),
    OneProcess(
        "the host waits for all that is queued",
        "worker",
        "            on_done()  # the reader waits on the device\n",
        "            record_host_event(self._streams.outward).synchronize()\n            on_done()\n",
        mode="at once",
    ),
    OneProcess(
        "the worker's stream waits for the one that adds up, not the other way round",
        "store",
        "self.current_stream.wait_stream(self._shared_streams.writing)",
        "self._shared_streams.writing.wait_stream(self.current_stream)",
        mode="the worker's copies are late",
    ),
    OneProcess(
        "of a step the first gradient alone is waited for",
        "store",
        "        if self._shared_streams is not None:\n            self.current_stream.wait_stream",
        "        if self._shared_streams is not None and self.is_idle:\n            self.current_stream.wait_stream",
        mode="the worker's copies are late",
    ),
    OneProcess(
        "the worker is not told of the coordinator's streams",
        "store",
        "ExportedMemory(self._weights, slots, self._shared_streams)",
        "ExportedMemory(self._weights, slots)",
    ),
    OneProcess(
        "the worker waits for what the coordinator had queued when it began",
        "weights",
        "            current.wait_stream(streams.stepping)\n",
        "            self._early = getattr(self, '_early', None) or streams.stepping.record_event()\n"
        "            current.wait_event(self._early)\n",
    ),
    OneProcess(
        "a ring slot is filled again when copies of another stream are done",
        "store",
        "record_host_event(self._inward, spins=self._spins)",
        "record_host_event(self._outward, spins=self._spins)",
    ),
    OneProcess(
        "memory of a gradient that the worker copies is used again",
        "worker",
        "        gradient.record_stream(self._streams.outward)\n",
        "",
        mode="the worker's copies are late",
    ),
    # --- snapshots, copied while the next step is made ---
    OneProcess(
        "a snapshot is copied before its version is made",
        "copies",
        "            stream.wait_stream(torch.accelerator.current_stream(device))\n",
        "            pass\n",
    ),
    OneProcess(
        "the optimizer's state is stepped before it is copied",
        "copies",
        "        _wait_on_devices(self._events())\n",
        "",
        mode="snapshots are late",
    ),
    OneProcess(
        "weights of a snapshot are overwritten before they are copied",
        "copies",
        "        _wait_on_devices(self.arrived)\n",
        "        pass\n",
        mode="snapshots are late",
    ),
    OneProcess(
        "weights of a snapshot are copied behind the event that says they are",
        "copies",
        '        _wait_on_devices(self._events())\n        weights = self._copy_all("weights", state.weights)\n',
        "        early = self._events()\n        self._events = lambda: early\n        _wait_on_devices(early)\n"
        '        weights = self._copy_all("weights", state.weights)\n',
    ),
    OneProcess("a snapshot goes to memory that is not page-locked", "copies", "dtype, pin_memory=True", "dtype"),
    OneProcess(
        "the host waits for each tensor of a snapshot",
        "copies",
        "place.copy_(part.detach(), non_blocking=True)",
        "place.copy_(part.detach())",
    ),
    # --- what comes from host memory ---
    Local("rows are added before they are there", "store", "        current.wait_stream(self._inward)\n", ""),
    Remote(
        "memory of rows is used again before they are added",
        "store",
        "        copy.record_stream(current)\n",
        "",
        mode="stepping is late",
    ),
    Local(
        "rows are copied while the host waits", "store", "uploaded.copy_(host, non_blocking=True)", "there.copy_(host)"
    ),
    Local("lists of rows are not page-locked", "coordinator", ".pin_memory()", ""),
    Local(
        "lists of rows are not kept until they are copied",
        "store",
        "        self.retain(source)\n",
        "        self.retain()\n",
    ),
    Local(
        "lists of rows of the batch before",
        "coordinator",
        "key = owner, field, contribution.batches",
        "key = owner, field, ()",
    ),
    # --- what goes to host memory ---
    Remote(
        "a version is copied to other devices before it is made",
        "store",
        "        self._outward.wait_stream(self.current_stream)\n        with self._outward:\n            host",
        "        with self._outward:\n            host",
        mode="stepping is late",
    ),
    Remote(
        "a version is copied to other devices while the host waits",
        "store",
        "host.copy_(tensor, non_blocking=True)",
        "host.copy_(tensor)",
    ),
    Remote(
        "the version before is copied to other devices",
        "coordinator",
        "self._remote.halves[half]), self._halves[0][half])",
        "self._remote.halves[half]), self._halves[0][1 - half])",
    ),
    # --- who owns which memory ---
    Local(
        "a worker's next life gets the memory of the one before",
        "store",
        "key = worker, incarnation",
        "key = worker, 1",
    ),
    Local(
        "memory is exported before it is made",
        "store",
        "            self.wait()  # until the slots are zeroed: from now on nobody else writes them\n",
        "",
    ),
    Local(
        "gradients are looked for in another slot",
        "store",
        "slots[number * self._slot_nbytes :]",
        "slots[(1 - number) * self._slot_nbytes :]",
    ),
    # --- from one device to another ---
    Shared(
        "rows of another device are added before they are there",
        "store",
        "with other._exporting, self._inward:",
        "with other._exporting, self._receiving:",
    ),
    Shared(
        "memory of another device's rows is used again before they are added",
        "store",
        "        copy.record_stream(current)\n",
        "",
        mode="stepping is late",
    ),
    Shared(
        "a shard goes to other devices before it is stepped",
        "store",
        "        self._outward.wait_stream(self.current_stream)\n        with self._outward:\n            rows",
        "        with self._outward:\n            rows",
    ),
    Shared(
        "memory of a shard on its way is used again before it is copied",
        "store",
        "        with self._outward:\n            rows",
        "        with self._exporting:\n            rows",
    ),
    Shared(
        "gradients are copied to another device from memory that it can't use",
        "store",
        "fetched.copy_(gradient.clone(), non_blocking=True)",
        "fetched.copy_(gradient, non_blocking=True)",
    ),
    Shared(
        "a shard is copied to another device from memory that it can't use",
        "store",
        "rows = tensor.clone() if row_numbers is None else tensor",
        "rows = tensor",
    ),
    Shared(
        "a shard is copied to memory of another device that this one can't use",
        "store",
        "target.copy_(arrived)",
        "target.copy_(rows)",
    ),
    Shared(
        "a version is published before other devices have it",
        "store",
        "(store.current_stream, store._receiving, store._outward)",
        "(store.current_stream,)",
    ),
    Shared(
        "a version is published when the first device has stepped its share",
        "owners",
        "busy[0].wait(busy[1:])",
        "[store.wait() for store in busy[:1]]",
    ),
    Shared(
        "gradients that another device still adds up are overwritten",
        "store",
        "(store.current_stream, store._receiving, store._outward)",
        "(self.current_stream, store._receiving, store._outward)",
        mode="stepping on the last device is late",
    ),
    Shared(
        "a task changes what has not come from other devices yet",
        "coordinator",
        "        self.stores.first.wait_for_received()\n",
        "        pass\n",
    ),
    Shared(
        "what a task has changed does not go to other devices",
        "coordinator",
        "        self._exchange.sent_shards.discard(ShardKey(self._bucket, self._parameter))\n",
        "        pass\n",
    ),
    Shared(
        "of the version before a shard goes to other devices",
        "coordinator",
        "        weights = self.weights(version)\n",
        "        weights = self.weights(version - 1)\n",
    ),
    Shared(
        "rows are put in their places on another device before they are there",
        "store",
        "                    target.index_copy_(0, row_numbers.to(other.device, non_blocking=True), arrived)\n",
        "                    at = row_numbers.to(other.device, non_blocking=True)\n"
        "                    with other._inward:\n                        target.index_copy_(0, at, arrived)\n",
        kind="shared rows",
    ),
    Shared(
        "rows of the version before are copied on one device alone",
        "coordinator",
        "in ((self._owner, self._weights), *self._copies):",
        "in ((self._owner, self._weights),):",
        kind="shared rows",
    ),
    # --- a worker's weights ---
    Local("weights of the other version", "weights", "self._load(version % 2)", "self._load(1 - version % 2)"),
    Local(
        "buffers are overwritten before they are copied",
        "weights",
        "            current.wait_stream(streams.outward)",
        "            pass",
        mode="the worker's copies are late",
    ),
    Local(
        "places of a group's rows are not waited for",
        "weights",
        "        current.wait_stream(streams.inward)",
        "        pass",
    ),
)


def expected() -> Wanted:
    """By an exchange in host memory, of a worker on a fake GPU that does everything at once: the same bits. Sets what a
    worker sets."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    found = {}
    for k, touched_only in product((1, 2), (False, True)):
        rig = SteppingRig(
            inputs(STEPS * PER_STEP * k), "host", batches_per_group=k, touched_only=touched_only, snapshot=True
        )
        found[k, touched_only] = rig.train()
        rig.close()
    return found


def observed(code: Code, kind: Kind, mode: Mode, seed: int, wanted: Wanted) -> str:
    """What is wrong with the numbers, the waits or the copies of a run; empty if nothing is."""
    mode.begin(seed)
    k = 1 + seed % 2
    rig = None
    try:
        given = inputs(STEPS * PER_STEP * k)
        rig = SteppingRig(given, kind, code, batches_per_group=k, snapshot=kind == "one process")
        rig.make_late(mode.late)
        found = rig.train()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
    finally:
        if rig is not None:
            rig.close()
    for who in ("worker", "autograd"):
        if found.waits[who]:
            return f"the {who} waits for the device"
    most = PER_STEP * STEPS + (kind != "remote")  # a part that is folded early, a version; the memory that is exported
    if found.waits["coordinator"] > most:
        return f"the coordinator waits {found.waits['coordinator']} times, not {most}"
    if found.counted.pageable_copies:
        return f"{found.counted.pageable_copies} pageable copies"
    return difference(found, wanted[k, kind == "shared rows"])


def difference(found: Trained, wanted: Trained) -> str:
    """Empty if all bits are the same."""
    for i, (loss, other) in enumerate(zip(found.losses, wanted.losses, strict=True)):
        if loss != other:
            return f"loss {i} is {loss}, not {other}"
    for when, own, others in (
        ("", found.tensors, wanted.tensors),
        (" in the snapshot", found.snapshot, wanted.snapshot),
    ):
        for name in own:
            if own[name] != others[name]:
                return f"bits of {name}{when}"
    return ""


def found_by(race: DeviceRace, wanted: Wanted, run: int = 0) -> str:
    """What a run in the race's mode notices; empty if nothing. Odd seeds have groups of several batches."""
    return observed(broken(race), race.kind, DEVICE_MODES[race.mode], 1 + 2 * run, wanted)


def main() -> int:
    arguments = parsed("tests.gpu.fake.device_races", __doc__)
    wanted, well = expected(), True
    for race in () if arguments.sound else DEVICE_RACES:
        well &= report(race, [found_by(race, wanted, run) for run in range(arguments.finds)])
    for kind, (name, mode) in product(KINDS, DEVICE_MODES.items()):
        runs = (observed(Code(), kind, mode, seed, wanted) for seed in range(arguments.runs))
        well &= no_alarm(f"{kind}, {name}", runs)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
