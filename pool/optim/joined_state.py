"""Joins the optimizer states of an ensemble's members (networks) for a checkpoint, and splits them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from pool.config.tree import Config
from pool.exchange.layout import member_prefix
from pool.exchange.plan import Plan

State = tuple[Mapping[str, Tensor], Mapping[str, Any]]  # as `BucketOptimizers.state` returns it


def join_states(states: Sequence[State]) -> State:
    """Joins the optimizer states of all members into one, as checkpoints store it.

    Tensors and numbers are merged by name. Groups, entries and schedulers are concatenated, since they are lists by
    bucket (parameters that are stepped together). Overrides are the same for all members.
    """
    tensors = {name: tensor for named, _ in states for name, tensor in named.items()}
    plain = [plain for _, plain in states]
    return tensors, {
        **plain[0],
        "numbers": {name: numbers for each in plain for name, numbers in each["numbers"].items()},
        "groups": [groups for each in plain for groups in each["groups"]],
        "entries": _joined_entries(plain),
        "schedulers": [scheduler for each in plain for scheduler in each["schedulers"]],
    }


def _joined_entries(plain: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the concatenated entries of all buckets; an empty list if no optimizer has any."""
    if not any(each["entries"] for each in plain):
        return []
    return [entries for each in plain for entries in each["entries"] or [{}] * len(each["groups"])]


def split_state(configs: Sequence[Config], plans: Sequence[Plan], state: State) -> list[State]:
    """Splits a joined state into the states of the members, as the inverse of `join_states`.

    What belongs to no member goes to one of them, so that its optimizers refuse it with an error.
    """
    tensors, plain = state
    members = len(plans)
    has_groups = plain["groups"] is not None
    groups, schedulers, entries = list(plain["groups"] or ()), list(plain["schedulers"]), list(plain.get("entries", ()))
    states: list[State] = []
    for m, (config, plan) in enumerate(zip(configs, plans, strict=True)):
        is_last = m == members - 1
        of_groups = len(groups) if is_last else len(plan.buckets)
        of_schedulers = len(schedulers) if is_last else len(plan.buckets) * config.schedule.is_set
        of_entries = len(entries) if is_last else len(plan.buckets)
        own = {
            **plain,
            "numbers": _of_member(m, members, plain["numbers"]),
            "groups": groups[:of_groups] if has_groups else None,
            "entries": entries[:of_entries],
            "schedulers": schedulers[:of_schedulers],
        }
        states.append((_of_member(m, members, tensors), own))
        del groups[:of_groups], entries[:of_entries], schedulers[:of_schedulers]
    return states


def _of_member(m: int, members: int, named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries whose name begins with a member's prefix.

    The first member gets entries without any member's prefix, too.
    """
    own = {name: value for name, value in named.items() if name.startswith(member_prefix(m, members))}
    if m > 0:
        return own
    prefixes = tuple(member_prefix(other, members) for other in range(members))
    return {**own, **{name: value for name, value in named.items() if not name.startswith(prefixes)}}
