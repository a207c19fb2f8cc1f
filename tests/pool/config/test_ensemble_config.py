"""`[ensemble]`: the config of each member is that of the run that it would be alone."""

from __future__ import annotations

from typing import Any

import pytest

from pool.config.ensemble import MAX_SEED
from pool.config.load import load_config, parse_config
from pool.errors import ConfigError

BASE: dict[str, Any] = {
    "run": {"seed": 7},
    "optimizer": {"name": "torch.optim.SGD", "args": {"lr": 0.1, "momentum": 0.9}},
    "schedule": {"name": "torch.optim.lr_scheduler.StepLR", "args": {"step_size": 3}},
    "loss": {"lambda_end": 0.5},
}


def test_a_run_without_an_ensemble_is_its_own_member() -> None:
    config = parse_config(BASE, "here")
    assert config.members == (config,)
    assert config.model_seed == 7


def test_a_number_of_members_gives_seeds_one_after_the_other() -> None:
    members = parse_config({**BASE, "ensemble": {"members": 3}}, "here").members
    assert [member.model_seed for member in members] == [7, 8, 9]
    assert {member.run.seed for member in members} == {7}
    for member in members:
        alone = parse_config({**BASE, "run": {"seed": 7, "model_seed": member.model_seed}}, "here")
        assert member.model_dump() == alone.model_dump()


def test_a_member_is_what_its_keys_make_of_the_run_with_set(tmp_path: Any) -> None:
    (tmp_path / "run.toml").write_text("optimizer.args = { lr = 0.1, momentum = 0.9 }\nrun.seed = 7\n")
    (tmp_path / "ensemble.toml").write_text(
        (tmp_path / "run.toml").read_text()
        + '[[ensemble.member]]\nseed = 3\noptimizer.args.lr = 1e-3\noptimizer.name = "torch.optim.SGD"\n'
        + "[[ensemble.member]]\nschedule = { every = 2 }\nloss.lambda_end = 0.7\nmodel.clip_weights = false\n"
    )
    members = load_config(tmp_path / "ensemble.toml").members
    own = (
        ["run.model_seed=3", "optimizer.args.lr=1e-3", "optimizer.name=torch.optim.SGD"],
        ["run.model_seed=7", "schedule.every=2", "loss.lambda_end=0.7", "model.clip_weights=false"],
    )
    alone = [load_config(tmp_path / "run.toml", changes).model_dump() for changes in own]
    assert [member.model_dump() for member in members] == alone


def test_a_members_class_of_schedule_replaces_parts_and_parts_replace_a_class() -> None:
    parts = {"parts": [{"name": "torch.optim.lr_scheduler.LinearLR", "args": {"total_iters": 2}}]}
    one = {"name": "torch.optim.lr_scheduler.StepLR", "args": {"step_size": 1}}
    for run, own in ((parts, one), (one, parts)):
        ensemble = {"ensemble": {"member": [{"schedule": own}]}}
        (member,) = parse_config({**BASE, "schedule": run, **ensemble}, "here").members
        assert member.schedule == parse_config({"schedule": own}, "here").schedule


@pytest.mark.parametrize(
    ("ensemble", "said"),
    [
        ({"members": 2, "member": [{}]}, r"here: ensemble\.members: .*leave one out$"),
        ({"members": 0}, r"here: ensemble\.members: input should be greater"),
        ({"member": [{}, {"data": {"batch_size": 1}}]}, r"here: ensemble\.member\.1\.data: can't differ .* seed, opt"),
        ({"member": [{"train": {}}]}, r"here: ensemble\.member\.0\.train: can't differ"),
        ({"member": [{"pool": {}}]}, r"here: ensemble\.member\.0\.pool: can't differ"),
        ({"member": [{"run": {}}]}, r"here: ensemble\.member\.0\.run: can't differ"),
        ({"member": [{"nonsense": 1}]}, r"here: ensemble\.member\.0\.nonsense: unknown key; allowed here: seed, "),
        ({"member": [{"loss": {"lambda_end": 2}}]}, r"here: ensemble\.member\.0\.loss\.lambda_end: input should be"),
        ({"member": [{"loss": {"lambd": 2}}]}, r"here: ensemble\.member\.0\.loss\.lambd: unknown key; allowed here: "),
        ({"member": [{"loss": 2}]}, r"here: ensemble\.member\.0\.loss: input should be"),
        (
            {"member": [{"schedule": {"name": "a.B", "parts": [{}]}}]},
            r"here: ensemble\.member\.0\.schedule\.parts: a schedule is either",
        ),
        ({"member": [{"seed": -1}]}, r"here: ensemble\.member\.0\.seed: input should be"),
    ],
)
def test_what_is_not_allowed_is_one_line_that_names_the_key(ensemble: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse_config({**BASE, "ensemble": ensemble}, "here")
    assert len(str(caught.value).splitlines()) == 1


def test_the_losses_of_a_group_have_to_fit_a_message() -> None:
    """As many batches as a step has, if those are fewer."""
    groups = {"batches_per_group": 33, "batches_per_step": 32}
    parse_config({"train": groups, "ensemble": {"members": 128}}, "here")
    with pytest.raises(ConfigError, match=r"here: train\.batches_per_group: 33 is too many for 129 .* so 31 batches"):
        parse_config({"train": groups, "ensemble": {"members": 129}}, "here")


def test_the_last_seed_has_to_be_one() -> None:
    fits = {"run": {"model_seed": MAX_SEED - 1}, "ensemble": {"members": 2}}
    assert [member.model_seed for member in parse_config(fits, "here").members] == [MAX_SEED - 1, MAX_SEED]
    with pytest.raises(ConfigError, match=r"here: ensemble\.members: the last member's seed .* lower run\.model_seed"):
        parse_config({**fits, "ensemble": {"members": 3}}, "here")
