"""Computes the sum of a gradient's squares, for the norm of all gradients.

A CPU, with any number of threads, and our kernels on a CUDA device (src/squares.cu) give the same bits, since chunks
are added up in the order of pool/kernels/rules.cuh.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from pool import _native
from pool.kernels.backend import backend_of
from pool.kernels.cuda.compiler import Source
from pool.kernels.cuda.launcher import Extent, launch_kernel
from pool.kernels.threads import MEMORY_BOUND, choose_num_threads

CHUNK = 512  # numbers of a chunk, as in rules.cuh


def sum_of_squares(gradient: Tensor) -> Tensor:
    """Returns the sum of the squares of a contiguous gradient, float64 [], on its device. A device does this
    asynchronously."""
    backend = backend_of(gradient.device) if gradient.dtype == torch.float32 else "torch"
    match backend:
        case "cpu":
            threads = choose_num_threads(gradient.numel(), MEMORY_BOUND)
            return torch.tensor(_native.sum_of_squares(gradient.view(-1), threads=threads), dtype=torch.float64)
        case "cuda":
            return _sum_on_device(gradient)
        case "torch":
            return gradient.double().square().sum()


def sum_of_all_squares(gradients: Iterable[Tensor]) -> float:
    """Returns the sum of the squares of all numbers in several gradients. The gradients' own sums are added up
    exactly."""
    sums = [sum_of_squares(gradient) for gradient in gradients]  # queued on each device, before one is waited for
    return math.fsum(map(float, sums))


def _sum_on_device(numbers: Tensor) -> Tensor:
    """Sums squares of chunks by our kernels, then sums of chunks of these sums, until one number is left."""
    source, kernel = Source.of("squares.cu", BFLOAT16=0, WIDTH=1), "square_chunks"
    while True:
        sums = numbers.new_zeros(max(1, -(-numbers.numel() // CHUNK)), dtype=torch.float64)
        launch_kernel(numbers.device, source, kernel, Extent(len(sums), 1), numbers, sums, numbers.numel())
        if len(sums) == 1:
            return sums[0]
        numbers, kernel = sums, "sum_chunks"
