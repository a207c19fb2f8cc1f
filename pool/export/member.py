"""Chooses among the networks in a checkpoint of an ensemble. Free of torch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.ranking import rank
from pool.checkpoint.state import STATE, SavedState, read_state
from pool.config.member_settings import find_differing_keys, flatten, list_members, parse_member_settings
from pool.errors import CheckpointError, ConfigError
from pool.run_folder.strict_json import foreign_content_error, printable, value_at
from pool.task.start import KEY

BEST: Literal["best"] = "best"
MemberId = int | Literal["best"]  # a member, by its number

_START = f"model.{KEY}"
_MAX_SHOWN = 8  # seeds in a message


@dataclass(frozen=True)
class Choice:
    """Chooses the network of a checkpoint: of an ensemble one member, or the average of all."""

    member: MemberId | None = None
    average: bool = False  # of all members' weights
    averaged: bool = False  # the averaged weights (`train.average`) in place of the newest


NEWEST = Choice()  # the newest weights, and no member chosen


def parse_member(member: str | None) -> MemberId | None:
    """Parses the option `--member`. Raises ConfigError."""
    if member is None:
        return None
    if member == BEST:
        return BEST
    if not (member.isascii() and member.isdecimal() and len(member) < 10):
        raise ConfigError(f"--member {member}: a number from 0, or best, is expected")
    return int(member)


def read_members(checkpoint: Path, state: SavedState) -> list[Mapping[str, Any]]:
    """Returns the settings of each network of a checkpoint. Raises CheckpointError."""
    try:
        return parse_member_settings(state.config)
    except ValueError as error:
        raise foreign_content_error(checkpoint / STATE, f"config.{error}") from None


def find_member(checkpoint: Path, state: SavedState, member: MemberId) -> tuple[int, str]:
    """Returns the number of the chosen member, and for the best one the reason, as text.

    Raises ConfigError, CheckpointError.
    """
    members = read_members(checkpoint, state)
    if member == BEST:
        return _find_best(checkpoint, state, members)
    check_member(str(checkpoint), member, len(members))
    return member, ""


def require_one_member(checkpoint: Path, members: Sequence[Mapping[str, Any]]) -> None:
    """Raises ConfigError, with a list of the members, if there are several members and so a choice is required."""
    if len(members) > 1:
        raise ConfigError(
            f"{checkpoint}: has {len(members)} members: choose with --member M, --member best or --average; they are "
            f"{list_members(members)}"
        )


def check_member(where: str, member: int, members: int) -> None:
    """Raises ConfigError if `where` has no member with this number."""
    if not 0 <= member < members:
        have = "one network, which is member 0" if members == 1 else f"the members 0 to {members - 1}"
        raise ConfigError(f"member {member}: {where} has {have}")


def _find_best(checkpoint: Path, state: SavedState, members: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    """Returns the number of the best member, and the reason, as text. Raises ConfigError if it can't be determined."""
    if len(members) == 1:
        return 0, ""
    ranking = rank(checkpoint, state)
    if ranking is None:
        raise ConfigError(
            f"best member: {checkpoint} has no validation, and metrics.jsonl of its run, with the losses, is not "
            "there: name a member by its number"
        )
    best = ranking.order[0]
    if len(ranking.validations) != len(members) or not math.isfinite(ranking.value(best)):
        raise ConfigError(
            f"best member: none of {checkpoint} has a finite {ranking.goal.metric}: name a member by its number"
        )
    if ranking.diverged_at(best) is not None:
        raise ConfigError(f"best member: all of {checkpoint} have diverged: name a member by its number")
    reason = f"the best: {ranking.describe_value(best)}"
    if ranking.goal.metric == "loss" and any(key.startswith("loss.") for key in _find_differing_keys(members)):
        reason += ", though [loss] is not the same for all members"
    return best, reason


def diverged_members(state: SavedState) -> dict[int, int]:
    """Returns the members whose training has diverged, each with the step since which it has.

    Returns none if all have diverged.
    """
    members = state.validations.members
    diverged = {index: member.diverged_at for index, member in enumerate(members) if member.diverged_at is not None}
    if len(diverged) == len(members):
        return {}
    return diverged


def format_excluded(diverged: Mapping[int, int]) -> str:
    """Lists the members that a mean leaves out, and why, as the end of a sentence; "" if there are none."""
    if not diverged:
        return ""
    members = [f"member {member} (diverged at step {step})" for member, step in diverged.items()]
    return f", without {', '.join(members)}"


def check_can_average(checkpoint: Path, members: Sequence[Mapping[str, Any]]) -> None:
    """Raises ConfigError if the weights of the members can't be averaged.

    They must have the same model and must have begun with the same weights. Networks that began with different
    weights have their hidden units in different orders, so that the average of their weights is meaningless.
    """
    keys = _find_differing_keys(members)
    model_keys = [key for key in keys if key.startswith("model.")]
    if model_keys:
        raise ConfigError(f"--average: members of {checkpoint} differ in {printable(model_keys[0])}")
    start = value_at(members[0], _START)
    if start:
        _check_start(checkpoint, printable(str(start), 500))
    elif "run.model_seed" in keys:
        seeds = [str(value_at(member, "run.model_seed")) for member in members]
        if len(seeds) > _MAX_SHOWN:
            seeds[_MAX_SHOWN:] = ["..."]
        raise ConfigError(
            f"--average: members of {checkpoint} began with different weights, model_seed = {', '.join(seeds)}: only "
            "those that began with the same can be averaged"
        )


def _check_start(checkpoint: Path, start: str) -> None:
    """Raises ConfigError unless all members are known to have begun with the same weights, those in `start`.

    If `start` is an ensemble, each member may have begun with another of its networks.
    """
    path = Path(os.path.expanduser(start))  # noqa: PTH111 (that of Path raises)
    if not path.exists():
        raise ConfigError(
            f"--average: members of {checkpoint} began with what was in {_START} = {start}, which is not here: nothing "
            "says whether it was the same for all"
        )
    if path.is_dir():
        try:
            checkpoint_of_start = find_checkpoint(path)
            members = len(read_state(checkpoint_of_start).members)
        except (OSError, CheckpointError) as error:
            raise ConfigError(f"--average: {_START} = {start} can't be looked at: {error}") from None
        if members > 1:
            raise ConfigError(
                f"--average: members of {checkpoint} began with the different members of {checkpoint_of_start}"
            )


def _find_differing_keys(members: Sequence[Mapping[str, Any]]) -> list[str]:
    return find_differing_keys([dict(flatten(member)) for member in members])
