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
    members: dict[LearningRates | None, list[int]] = {}  # members with equal rates
    for member, rates in enumerate(run.planned.rates):
        members.setdefault(rates, []).append(member)
    for rates, indices in list(members.items())[:_MOST]:
        prefix = f"{format_members(indices)}: " if len(members) > 1 else ""
        has_plateau = config.members[indices[0]].schedule.plateau.patience is not None
        yield prefix + _describe_rates(rates, run.step, has_plateau=has_plateau)
        if rates is not None and rates.low_from is not None:
            yield (
                f"{prefix}the learning rate falls below a millionth of its highest at step {rates.low_from + 1:,} of "
                f"{steps:,}: the steps from there on change nothing; a schedule in shares of train.steps "
                '(schedule.every = "1%") follows the length of the run'
            )
    num_omitted = len(members) - _MOST
    if num_omitted > 0:
        yield f"{num_omitted} more of other members"


def _describe_rates(rates: LearningRates | None, step: int, *, has_plateau: bool) -> str:
    """Describes learning rates at the start, in the middle and at the end.

    `step`: with which the run begins; `has_plateau`: validations may lower the rate.
    """
    lower = "; validations may lower it (schedule.plateau)" if has_plateau else ""
    if rates is None:
        return f"not computed, for the schedule has too many steps{lower}"
    if rates.first == rates.middle == rates.last:
        return f"{rates.first:.3g} throughout{lower}"
    start = "now" if step else "at the start"
    return f"{rates.first:.3g} {start}, {rates.middle:.3g} in the middle, {rates.last:.3g} at the end{lower}"
