#!/usr/bin/env bash
# torch 2.13.0: a learning-rate schedule that is made after the optimizer's state was loaded goes on with another rate.
#
# Guess: the order of the four lines (make optimizer, load its state, make scheduler, load its state) does not matter, since
#   both states are complete; the page asks to save and load both, and says no more.
# Seen: making the scheduler sets the optimizer's rate to that of step 0, and its load_state_dict does not set it back. The
#   next step uses the wrong rate; LinearLR, ChainedScheduler and CyclicLR's momentum compute all later ones from it.
# Matters: one order is an undisturbed run, the other one another network, without a warning.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
install_python torch==2.13.0 numpy==2.4.6
python -W ignore - <<'PYTHON'
import copy
import sys

import torch
from torch.optim import lr_scheduler

SCHEDULES = {
    "LinearLR": lambda optimizer: lr_scheduler.LinearLR(optimizer, 0.1, 1, 9),
    "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=21),
    "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 3, 0.5),
}


def rates(optimizer, schedule, steps):
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def new():
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)


seen = {}
print("version: torch", torch.__version__)
print("guess: the rates of both orders are those of the undisturbed run")
for name, make in SCHEDULES.items():
    optimizer = new()
    schedule = make(optimizer)
    rates(optimizer, schedule, 5)
    states = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(schedule.state_dict())
    undisturbed = rates(optimizer, schedule, 8)

    first = new()
    made_first = make(first)
    first.load_state_dict(copy.deepcopy(states[0]))
    made_first.load_state_dict(copy.deepcopy(states[1]))
    second = new()
    second.load_state_dict(copy.deepcopy(states[0]))
    made_second = make(second)
    made_second.load_state_dict(copy.deepcopy(states[1]))
    after = rates(second, made_second, 8)
    wrong = sum(a != b for a, b in zip(after, undisturbed))
    seen[name] = (rates(first, made_first, 8) == undisturbed, wrong)
    print(f"seen: {name}: scheduler first {seen[name][0]}; optimizer's state first: {wrong} of 8 rates wrong:", after[0])
right = all(equal for equal, _ in seen.values())
wrongs = [wrong for _, wrong in seen.values()]
described = wrongs == [8, 1, 1, 0]
sys.exit(not (right and described))
PYTHON
