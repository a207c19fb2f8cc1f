"""Tests whether every pair of cards can copy to one another, in both directions, as an exchange on devices does.

It copies from and to memory that is allocated as the exchange's, by the exchange's own functions, and compares the
bytes, since a driver may report no error and copy nothing. `python -m pool.exchange.device.card_copies KIND MODULE
SOCKET` is the process that copies.
"""

from __future__ import annotations

import sys
from itertools import permutations

import torch

from pool.device.plugins import add_devices
from pool.device.second_process import Reply, SecondProcess, serve
from pool.device.shared_memory import get_shared_memory
from pool.exchange.device.store import DeviceStore

NBYTES = (2 << 20) + 24


def find_copy_problem(kind: str, module: str, deadline: float) -> str:
    """Returns what went wrong in copies between any two cards of this kind of device, empty if nothing did.

    `module`: adds the kind of device to torch, where torch does not know it. `deadline`: a time of time.monotonic.
    Raises NotTriedError if the copies could not be tried.
    """
    try:
        with SecondProcess("pool.exchange.device.card_copies", kind, module, deadline=deadline) as process:
            return process.request("copy")[0]
    except RuntimeError as error:
        return str(error)


def find_first_difference(stores: list[DeviceStore]) -> str:
    """Copies a version of the weights between each pair of stores, once as the exchange sends weights and once as it
    fetches gradients.

    Returns a description of the first copy whose bytes differ, empty if none does.
    """
    for number, (source, target) in enumerate(permutations(stores, 2)):
        generator = torch.Generator().manual_seed(number)
        expected = torch.randint(256, (NBYTES,), dtype=torch.uint8, generator=generator)
        source.halves[0].copy_(expected)
        target.halves[1].zero_()
        source.send(source.halves[0], [(target, target.halves[1])])
        target.wait_for_received()
        fetched = target.fetch(source.halves[0], source)
        source.wait([target])
        for action, copy in (("sent", target.halves[1]), ("fetched", fetched)):
            num_different = int((copy.cpu() != expected).sum())
            if num_different:
                return f"{source.device} to {target.device}: {num_different:,} of {NBYTES:,} bytes differ when {action}"
    return ""


def main(kind: str, module: str, fd: str) -> None:
    add_devices(module)
    shared = get_shared_memory(kind)
    assert shared is not None
    devices = [torch.device(kind, index) for index in range(torch.get_device_module(kind).device_count())]

    def answer(*_: object) -> Reply:
        return find_first_difference([DeviceStore(device, shared.allocate, NBYTES, 1) for device in devices]), ()

    serve(int(fd), lambda: [torch.zeros(1, device=device).cpu() for device in devices], answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
