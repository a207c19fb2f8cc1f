"""Models that change what they hold: nothing of it is lost, whatever process computed it, or the run names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparsepool import Result
from tests.support.runs import TOY, Ended, run, run_well
from tests.support.tasks.stateful import Net


def settings(task: str, **changes: Any) -> dict[str, Any]:
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return {**TOY, "train.steps": 6, "task": f"tests.support.tasks.stateful:{task}", **given}


def loaded(ended: Ended) -> Net:
    """The model, as its user loads it."""
    model = Net(anew=True)
    weights = Result(ended.dir).weights()
    missing = model.load_state_dict({name: torch.from_numpy(np.array(each)) for name, each in weights.items()})
    assert (missing.missing_keys, missing.unexpected_keys) == ([], [])
    return model


def test_buffers_bound_anew_and_hooks_have_the_bits_of_one_worker_and_of_changes_in_place(tmp_path: Path) -> None:
    deaths = {"testing.crash_points": ["coordinator.before_commit@4=kill", "worker.before_finish@5=kill"]}
    anew = run_well(tmp_path / "anew", {**settings("Anew"), **deaths})
    in_place = run_well(tmp_path / "in-place", settings("InPlace", pool__devices=["fake:0"]))
    assert anew.digest() == in_place.digest()
    model = loaded(anew)
    assert model.get_buffer("seen").item() == 6
    torch.manual_seed(42)
    first = Net(anew=True)
    assert torch.equal(model.hooked.weight, first.hooked.weight), "its hook makes the gradient zero"
    assert not torch.equal(model.hooked.bias, first.hooked.bias)
    assert not torch.equal(model.one.weight, first.one.weight)


def test_what_initialize_and_after_step_bind_anew_counts(tmp_path: Path) -> None:
    deaths = {"testing.crash_points": ["coordinator.before_commit@4=kill"]}
    found = [
        run_well(tmp_path / f"{number}", settings("Given", train__steps=steps, **more))
        for number, (steps, more) in enumerate([(1, {}), (6, {}), (6, deaths)])
    ]
    assert found[1].digest() == found[2].digest()
    one, six = loaded(found[0]), loaded(found[1])
    assert torch.allclose(one.last.weight, torch.tensor(2.0), atol=0.1)
    assert torch.allclose(one.one.bias, torch.tensor(3.0), atol=0.1)
    assert not torch.equal(six.last.weight, one.last.weight)
    assert six.other.bias.tolist() == [4.0] * 8
    assert six.last.bias.item() == six.get_buffer("seen").item() == 12, "after_step is called once a step, no more"


def test_a_layer_that_loss_lets_be_trained_later_ends_the_run_with_its_name(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", settings("Unfreezing"))
    assert ended.code == 1
    assert "loss lets the parameter last.weight be trained, which build_model has frozen" in ended.err
    assert "stateful.py:" in ended.err
