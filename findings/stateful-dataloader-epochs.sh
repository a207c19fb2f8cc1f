#!/usr/bin/env bash
# torchdata 0.11.0, torch 2.13.0: StatefulDataLoader resumes the epoch, and then shuffles otherwise (no worker processes).
#
# Guess: with a seeded generator, a loader that was resumed in the middle of epoch 1 gives the rest of epoch 1 and then the
#   epoch 2 of the undisturbed one; its page calls it made for checkpoints in the middle of an epoch.
# Seen: the rest of epoch 1 is right. Epoch 2 has another order with num_workers=0, the right one with num_workers=2. A
#   state that was kept at the last batch of an epoch gives an empty epoch first, with both.
# Matters: a run that was killed once ends with other weights, and one epoch of them trains on nothing.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python torch==2.13.0 torchdata==0.11.0 numpy==2.4.6
cat >resume.py <<'PYTHON'
import sys

import torch
import torchdata
from torchdata.stateful_dataloader import StatefulDataLoader


def loader(workers):
    seeded = torch.Generator().manual_seed(3)
    return StatefulDataLoader(range(12), batch_size=3, shuffle=True, num_workers=workers, generator=seeded, collate_fn=list)


def resumed(workers, batches):
    """The two passes of a loader that goes on behind so many batches of epoch 1."""
    first = loader(workers)
    list(first)
    for number, _ in enumerate(first, 1):
        if number == batches:
            state = first.state_dict()
            break
    second = loader(workers)
    second.load_state_dict(state)
    return list(second), list(second)


if __name__ == "__main__":
    print("versions: torch", torch.__version__, "torchdata", torchdata.__version__)
    print("guess: all true")
    seen = []
    for workers in (0, 2):
        whole = loader(workers)
        epochs = [list(whole) for _ in range(3)]
        rest, then = resumed(workers, 2)
        at_end, _ = resumed(workers, 4)
        seen.append((rest == epochs[1][2:], then == epochs[2], at_end == epochs[2]))
        print(f"seen: {workers} workers: rest of the epoch {seen[-1][0]}, next epoch {seen[-1][1]}")
        print(f"seen: {workers} workers: resumed at an epoch's end, the next one {seen[-1][2]}: {at_end}")
    sys.exit(seen != [(True, False, False), (True, True, False)])
PYTHON
python -W ignore resume.py
