"""Describes the learning rates of a run, for the user, before the run begins."""

from __future__ import annotations

from collections.abc import Iterator

from pool.metrics.medians import format_members
from pool.process.plan_result import LearningRates
from pool.supervisor.prepare.run_plan import RunPlan

_MOST = 8  # most different learning rates that are described


def rate_lines(run: RunPlan) -> Iterator[str]:
    """Yields a line for each learning rate among the members (networks of the run), and a warning if it falls to almost
    nothing."""
    config, steps = run.config, run.config.train.steps
    members: dict[LearningRates | None, list[int]] = {}
    for m, rates in enumerate(run.planned.rates):
        members.setdefault(rates, []).append(m)
    for rates, numbers in list(members.items())[:_MOST]:
        who = f"{format_members(numbers)}: " if len(members) > 1 else ""
        yield who + _said(rates, run.step, plateau=config.members[numbers[0]].schedule.plateau.patience is not None)
        if rates is not None and rates.low_from is not None:
            yield (
                f"{who}the learning rate falls below a millionth of its highest at step {rates.low_from + 1:,} of "
                f"{steps:,}: the steps from there on change nothing; a schedule in shares of train.steps "
                '(schedule.every = "1%") follows the length of the run'
            )
    if (more := len(members) - _MOST) > 0:
        yield f"{more} more of other members"


def _said(rates: LearningRates | None, step: int, *, plateau: bool) -> str:
    """Describes learning rates in words. `step`: with which the run begins; `plateau`: validations may lower the
    rate."""
    lower = "; validations may lower it (schedule.plateau)" if plateau else ""
    if rates is None:
        return f"not computed, for the schedule has too many steps{lower}"
    if rates.first == rates.middle == rates.last:
        return f"{rates.first:.3g} throughout{lower}"
    start = "now" if step else "at the start"
    return f"{rates.first:.3g} {start}, {rates.middle:.3g} in the middle, {rates.last:.3g} at the end{lower}"
