"""The section `[ensemble]`: several networks that train in one run, and the config of each. Free of torch.

A member's config is that of the run that it would be alone: the run's, changed by the member's own keys as `--set`
changes them, with no ensemble in it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from loader.section import Effect, Section
from pool.config.overlay import merge_settings

MAX_MEMBERS = 256
MAX_GROUP_LOSSES = 1 << 12  # of all members and batches of a group; a worker's message can hold so many
MAX_SEED = (1 << 63) - 1


class MemberConfig(Section):
    """The settings that one member has of its own."""

    seed: Annotated[int | None, Field(ge=0, le=MAX_SEED, description="its run.model_seed; not set: the run's")] = None
    optimizer: Annotated[dict[str, Any], Field(default_factory=dict, description="keys of [optimizer]")]
    schedule: Annotated[dict[str, Any], Field(default_factory=dict, description="keys of [schedule]")]
    loss: Annotated[dict[str, Any], Field(default_factory=dict, description="keys of [loss]")]
    model: Annotated[dict[str, Any], Field(default_factory=dict, description="keys of [model] that keep every shape")]


class EnsembleConfig(Section):
    """Networks of one structure that train in one run, for one loader's price: as many as `members` says, with the
    seeds run.model_seed, run.model_seed + 1, ...; or one for each table `[[ensemble.member]]`.

    [[ensemble.member]]
    seed = 1                                           # its run.model_seed
    optimizer.args.lr = 1e-3                           # and its own optimizer, schedule, loss and model keys
    loss.lambda_end = 0.7
    """

    members: Annotated[
        int | None,
        Field(ge=1, le=MAX_MEMBERS, description="networks that differ in their seed; not set: one"),
        Effect.FIXED,
    ] = None
    member: Annotated[
        tuple[MemberConfig, ...],
        Field(
            strict=False,  # JSON's arrays are lists
            max_length=MAX_MEMBERS,
            description="instead of members: tables of seed, optimizer, schedule, loss and model",
        ),
        Effect.FIXED,
    ] = ()

    @property
    def is_set(self) -> bool:
        """Tells whether the run is an ensemble, perhaps with a single member."""
        return self.members is not None or bool(self.member)

    @property
    def problem(self) -> str:
        """Describes keys that contradict each other, and what to do; "" if none do."""
        if self.members is not None and self.member:
            return "ensemble.members: members are either a number, or tables [[ensemble.member]]: leave one out"
        return ""

    def member_trees(self, run: Mapping[str, Any], model_seed: int) -> Iterator[dict[str, Any]]:
        """Yields each member's settings as plain data, as if it were trained alone. `run`: settings of the whole
        run."""
        members = self.member
        if not members:
            seeds = range(model_seed, model_seed + (self.members or 1))
            members = tuple(MemberConfig.model_validate({"seed": seed}) for seed in seeds)
        for member in members:
            tree = copy.deepcopy({key: value for key, value in run.items() if key != "ensemble"})
            tree["run"]["model_seed"] = model_seed if member.seed is None else member.seed
            merge_settings(tree, member.model_dump(exclude={"seed"}))
            yield tree
