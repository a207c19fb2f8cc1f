"""Adam and its kin: their formulas to rounding; the same bits for any form of the gradient, any level, any threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pool import _native
from pool.kernels.reduction import Addend, Touched
from pool.optim import Adam, AdamW, ClippedAdamW, SparseAdam

STEPS = 20
Kind = type[Adam] | type[ClippedAdamW]
KINDS = pytest.mark.parametrize("kind", [Adam, ClippedAdamW])


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def gradients(shape: tuple[int, ...], count: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for _ in range(count)]


def addends(gradients: list[Tensor], touched: list[Touched] | None = None) -> list[Addend]:
    """At the places 0, 1, 2 ..."""
    return [Addend(i, each, None if touched is None else touched[i]) for i, each in enumerate(gradients)]


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, torch.optim.Adam),
        ({"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-5}, torch.optim.Adam),
        ({"weight_decay": 0.1}, torch.optim.Adam),
        ({"weight_decay": 0.1, "decoupled_weight_decay": True}, torch.optim.AdamW),
    ],
    ids=["defaults", "hyperparameters", "weight decay", "decoupled"],
)
def test_the_weights_are_torchs_to_float32_rounding(ours: dict[str, Any], theirs: type[torch.optim.Optimizer]) -> None:
    start = torch.randn(37, 21, generator=torch.Generator().manual_seed(1))
    own, reference = nn.Parameter(start.clone()), nn.Parameter(start.double())
    arguments = {key: value for key, value in ours.items() if key != "decoupled_weight_decay"}
    optimizer, other = Adam([own], **ours), theirs([reference], **arguments)
    for gradient in gradients((37, 21), STEPS):
        own.grad, reference.grad = gradient, gradient.double()
        optimizer.step()
        other.step()
    torch.testing.assert_close(own.detach().double(), reference.detach(), rtol=2e-6, atol=2e-6)
    for key in ("exp_avg", "exp_avg_sq"):
        torch.testing.assert_close(
            optimizer.state[own][key].double(), other.state[reference][key], rtol=1e-5, atol=1e-7
        )


def test_adamw_is_adam_with_decoupled_weight_decay() -> None:
    start = torch.randn(37, 21, generator=torch.Generator().manual_seed(1))
    one, other = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    optimizers = AdamW([one], lr=0.02), Adam([other], lr=0.02, weight_decay=0.01, decoupled_weight_decay=True)
    for gradient in gradients((37, 21), STEPS):
        one.grad = other.grad = gradient
        for optimizer in optimizers:
            optimizer.step()
    assert torch.equal(one, other)


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize(
    "arguments",
    [{}, {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.3, "min_weight": -0.5, "max_weight": 0.9}],
    ids=["defaults", "hyperparameters"],
)
def test_clipped_adamw_is_bullets_rule(arguments: dict[str, Any]) -> None:
    start = 2 * torch.randn(37, 21, generator=torch.Generator().manual_seed(1))
    own = nn.Parameter(start.clone())
    optimizer = ClippedAdamW([own], **arguments)
    (group,) = optimizer.param_groups
    rate, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
    weight, mean, square = start.double(), torch.zeros(37, 21).double(), torch.zeros(37, 21).double()
    for gradient in gradients((37, 21), STEPS):
        own.grad, g = gradient, gradient.double()
        optimizer.step()
        weight *= 1 - rate * decay
        mean = beta1 * mean + (1 - beta1) * g
        square = beta2 * square + (1 - beta2) * g * g
        weight -= rate * mean / (square.sqrt() + group["eps"])
        weight.clamp_(group["min_weight"], group["max_weight"])
        torch.testing.assert_close(own.detach().double(), weight, rtol=1e-5, atol=5e-6)
    assert (own == group["max_weight"]).any()
    assert (own == group["min_weight"]).any()
    assert (own.abs() < 0.5).any()


def test_what_is_no_number_stays_when_weights_are_clipped() -> None:
    """The pool refuses such a step; nothing may hide it."""
    parameter = nn.Parameter(torch.tensor([1.0, torch.nan, -5.0] * 11))
    parameter.grad = torch.zeros(33)
    ClippedAdamW([parameter], weight_decay=0.0).step()
    assert parameter[1::3].isnan().all()
    assert parameter[2::3].eq(-1.98).all()
    assert parameter[::3].eq(1).all()


def test_torch_goes_on_from_our_state_and_we_from_torchs() -> None:
    first, second = nn.Parameter(torch.ones(50)), nn.Parameter(torch.ones(50))
    ours, theirs = Adam([first]), torch.optim.Adam([second])
    for gradient in gradients((50,), 3):
        first.grad = second.grad = gradient
        ours.step()
        theirs.step()
    state = ours.state_dict()
    ours.load_state_dict({**state, "state": theirs.state_dict()["state"]})
    theirs.load_state_dict({**theirs.state_dict(), "state": state["state"]})
    for gradient in gradients((50,), 3, seed=1):
        first.grad = second.grad = gradient
        ours.step()
        theirs.step()
    torch.testing.assert_close(first, second, rtol=1e-6, atol=1e-7)


@KINDS
def test_every_level_gives_the_same_bits(kind: Kind) -> None:
    results = []
    before = _native.simd_level()
    try:
        for level in _native.simd_levels():
            _native.set_simd_level(level)
            parameter = nn.Parameter(torch.linspace(-1, 1, 1003))
            optimizer = kind([parameter], weight_decay=0.01)
            for gradient in gradients((1003,), 3):
                parameter.grad = gradient
                optimizer.step()
            results.append(parameter.detach().numpy().tobytes())
    finally:
        _native.set_simd_level(before)
    assert len(set(results)) == 1


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("threads", [1, 3], indirect=True)
@pytest.mark.parametrize("count", [1, 3, 6])
@KINDS
def test_one_pass_has_the_bits_of_a_fold_and_a_step(kind: Kind, threads: int, count: int) -> None:
    assert torch.get_num_threads() == threads
    size, scale = 900_001, 1 / 3
    old = torch.randn(size, generator=torch.Generator().manual_seed(2))
    whole, parts = nn.Parameter(torch.empty(size)), nn.Parameter(old.clone())
    prepare_step, two = kind([whole]), kind([parts])
    total = torch.empty(size)
    for seed in range(3):
        sources = gradients((size,), count, seed)
        prepare_step.reduce_and_step(whole, old, addends(sources), scale=scale)
        old = whole.detach().clone()
        _native.reduce(total, sources, scale=scale)
        parts.grad = total
        two.step()
    assert torch.equal(whole, parts)
    assert torch.equal(prepare_step.state[whole]["exp_avg_sq"], two.state[parts]["exp_avg_sq"])


@pytest.mark.usefixtures("simd_level")
@pytest.mark.parametrize("threads", [1, 3], indirect=True)
@pytest.mark.parametrize("first_row", [0, 160])
@KINDS
def test_of_a_table_only_rows_that_a_batch_touched_are_read(kind: Kind, threads: int, first_row: int) -> None:
    """The others hold NaN; the bits are those of a fold of rows and a step."""
    assert torch.get_num_threads() == threads
    rows, columns = 5000, 48
    rng = np.random.default_rng(3)
    old = torch.randn(rows, columns, generator=torch.Generator().manual_seed(4))
    whole, parts = nn.Parameter(torch.empty(rows, columns)), nn.Parameter(old.clone())
    prepare_step, two = kind([whole]), kind([parts])
    total = torch.empty(rows, columns)
    for seed in range(3):
        sources = gradients((rows, columns), 2, seed)
        touched = [np.flatnonzero(rng.random(rows + 500) < share).astype(np.uint16) for share in (0.5, 0.1)]
        for source, numbers in zip(sources, touched, strict=True):
            missing = np.setdiff1d(np.arange(rows), numbers.astype(np.int64) - first_row)
            source[missing] = torch.nan
        prepare_step.reduce_and_step(whole, old, addends(sources, touched), first_row=first_row, scale=0.5)
        old = whole.detach().clone()
        _native.reduce_rows(total, list(zip(sources, touched, strict=True)), first_row=first_row, scale=0.5)
        parts.grad = total
        two.step()
    assert torch.equal(whole, parts)
    assert not whole.isnan().any()


@pytest.mark.usefixtures("simd_level")
def test_sparse_adam_is_torchs_and_writes_touched_rows_only() -> None:
    rows, columns = 300, 40
    rng = np.random.default_rng(5)
    start = torch.randn(rows, columns, generator=torch.Generator().manual_seed(6))
    own, reference = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ours, theirs = SparseAdam([own], lr=0.01, eps=1e-12), torch.optim.SparseAdam([reference], lr=0.01, eps=1e-12)
    old = start.clone()
    for seed in range(6):
        touched = np.flatnonzero(rng.random(rows) < 0.3).astype(np.uint32)
        (gradient,) = gradients((rows, columns), 1, seed)
        own.data = torch.full_like(start, torch.nan)
        ours.reduce_and_step(own, old, addends([gradient], [touched]))
        assert sorted(set(np.flatnonzero(~own.detach().isnan().all(1).numpy()))) == touched.tolist()
        old = torch.where(own.detach().isnan(), old, own.detach())
        index = torch.from_numpy(touched.astype(np.int64))
        reference.grad = torch.sparse_coo_tensor(
            index[None], gradient[index], start.shape, check_invariants=True
        ).coalesce()
        theirs.step()
    torch.testing.assert_close(old, reference.detach(), rtol=1e-5, atol=1e-6)
    assert (old == start).all(1).any()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"lr": -1.0}, "lr must not be negative: -1"),
        ({"eps": 0.0}, "eps must be positive, not 0"),
        ({"betas": (0.9, 1.0)}, "betas must be two numbers"),
    ],
)
@KINDS
def test_what_makes_no_sense_is_refused(kind: Kind, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        kind([nn.Parameter(torch.zeros(3))], **arguments)


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({"min_weight": 1.0, "max_weight": 1.0}, "min_weight must be below max_weight: 1, 1"),
        ({"max_weight": float("nan")}, "max_weight must be a finite number, not nan"),
        ({"min_weight": "low"}, "min_weight must be a number, not 'low'"),
    ],
)
def test_limits_that_leave_no_room_are_refused(limits: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ClippedAdamW([nn.Parameter(torch.zeros(3))], **limits)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"float32 on a CPU, not torch\.float64 .* torch\.optim take others"):
        Adam([nn.Parameter(torch.zeros(3, dtype=torch.float64))])


def test_what_does_not_fit_is_a_value_error_and_changes_nothing() -> None:
    weights = torch.ones(4, 16)
    tensors = weights, weights.clone(), [torch.zeros(4, 16), torch.zeros(4, 16)]
    settings: dict[str, Any] = {"constants": [0.5] * 8}
    touched = np.array([0, 3], np.uint16)
    with pytest.raises(ValueError, match="source 0 is \\[3, 16\\], but weights is \\[4, 16\\]"):
        _native.adam_rows(*tensors, [(torch.ones(3, 16), touched)], **settings)
    with pytest.raises(ValueError, match="touched of source 0 is not strictly ascending"):
        _native.adam_rows(*tensors, [(torch.ones(4, 16), touched[::-1].copy())], **settings)
    with pytest.raises(ValueError, match="state 0 is \\[4, 15\\]"):
        _native.adam_rows(weights, weights, [torch.zeros(4, 15), weights], [], **settings)
    with pytest.raises(ValueError, match="there are 1 states, must be 2"):
        _native.adam_rows(weights, weights, [weights], [], **settings)
    with pytest.raises(ValueError, match="there are 7 constants, must be 8"):
        _native.adam_rows(*tensors, [(torch.ones(4, 16), touched)], constants=[0.5] * 7)
    assert torch.equal(weights, torch.ones(4, 16))


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9), "no betas"),
        (lambda p: torch.optim.Adam([p], amsgrad=True), "amsgrad or maximize"),
    ],
)
def test_state_of_another_optimizer_is_refused(other: Any, complaint: str) -> None:
    parameter = nn.Parameter(torch.ones(5))
    parameter.grad = torch.ones(5)
    theirs = other(parameter)
    theirs.step()
    with pytest.raises(ValueError, match=f"state of another optimizer than Adam: it has {complaint}"):
        Adam([parameter]).load_state_dict(theirs.state_dict())


def test_schedulers_see_that_it_steps(recwarn: pytest.WarningsRecorder) -> None:
    parameter = nn.Parameter(torch.ones(5))
    optimizer = Adam([parameter])
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.reduce_and_step(parameter, parameter.data, addends([torch.ones(5)]))
    schedule.step()
    assert not recwarn.list
