"""The fake GPU does what a GPU does, and what a program must not rely on."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from tests.gpu.fake import fakegpu

DEVICE = torch.device("fakegpu:1")


@pytest.fixture(autouse=True)
def _sound() -> Iterator[None]:
    fakegpu.configure(delay_us=0, bytes_per_us=0, lazy=0)
    yield
    fakegpu.configure(delay_us=0, lazy=0, fail_kernel=0, fail_launch=0, memory_bytes=1 << 36)
    fakegpu.mend()
    fakegpu.make_late(None)


def test_another_process_can_write_memory_that_was_exported_to_it() -> None:
    ours, theirs = socket.socketpair()
    pid = os.fork()  # before this process has used the device
    if pid == 0:
        note, descriptors, _, _ = socket.recv_fds(theirs, 100, 1)
        offset, nbytes = map(int, note.split())
        memory = torch.ops.fakegpu.import_memory(descriptors[0], offset, nbytes, 0).view(torch.float32)
        memory.add_(torch.arange(1000, dtype=torch.float32, device="fakegpu:0"))
        torch.accelerator.synchronize(0)
        theirs.send(b"done")
        os._exit(0)
    tensor = torch.full((1000,), 5.0, device=DEVICE)
    torch.accelerator.synchronize(1)
    descriptor, offset, nbytes = torch.ops.fakegpu.export_memory(tensor)
    socket.send_fds(ours, [f"{offset} {nbytes}".encode()], [descriptor])
    assert ours.recv(4) == b"done"
    os.waitpid(pid, 0)
    ours.close()
    theirs.close()
    assert torch.equal(tensor.cpu(), torch.arange(1000) + 5.0)


def status_of_child(action: object) -> int:
    pid = os.fork()
    if pid == 0:
        os.close(2)
        action()  # type: ignore[operator]
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_host_cannot_touch_its_memory() -> None:
    tensor = torch.ones(4, device=DEVICE)
    assert status_of_child(lambda: ctypes.c_float.from_address(tensor.data_ptr()).value) == -signal.SIGSEGV


def test_a_process_that_was_forked_after_its_use_is_refused() -> None:
    torch.ones(1, device=DEVICE)

    def use() -> None:
        with pytest.raises(RuntimeError, match="forked subprocess"):
            torch.ones(1, device=DEVICE)

    assert status_of_child(use) == 0


def test_work_runs_later_than_the_host_believes() -> None:
    fakegpu.configure(lazy=1)
    before = fakegpu.counters()
    tensor = torch.ones(4, device=DEVICE) + 1
    event = torch.accelerator.current_stream(DEVICE).record_event()
    counted = fakegpu.counters() - before
    assert (counted.kernels, counted.host_waits) == (2, 0)
    event.synchronize()
    assert (fakegpu.counters() - before).event_waits == 1
    assert tensor.cpu().tolist() == [2, 2, 2, 2]


def test_streams_wait_for_events_of_others() -> None:
    fakegpu.configure(delay_us=2000)
    side = torch.Stream(device=DEVICE)
    tensor = torch.zeros(4, device=DEVICE)
    made = torch.accelerator.current_stream(DEVICE).record_event()
    side.wait_event(made)
    with side:
        tensor.add_(1)
    torch.accelerator.current_stream(DEVICE).wait_stream(side)
    assert tensor.mul_(3).cpu().tolist() == [3, 3, 3, 3]


def test_a_late_stream_comes_after_all_that_does_not_wait_for_it_and_before_all_that_does() -> None:
    late, other = torch.Stream(device=DEVICE), torch.Stream(device=DEVICE)
    here = torch.accelerator.current_stream(DEVICE)
    tensor = torch.zeros(4, device=DEVICE)
    torch.accelerator.synchronize(1)
    fakegpu.make_late(late)
    with late:
        tensor.add_(1)
    other.wait_stream(late)
    with other:
        after = tensor + 10
    tensor.mul_(3)
    before = tensor.clone()
    here.wait_stream(other)
    assert [each.cpu().tolist() for each in (before, tensor, after)] == [[0] * 4, [1] * 4, [11] * 4]


def test_memory_is_used_again_in_the_order_of_its_stream_and_holds_garbage() -> None:
    first = torch.ones(1000, device=DEVICE)
    address = first.data_ptr()
    del first
    second = torch.empty(1000, device=DEVICE)
    assert second.data_ptr() == address
    assert bool(second.isnan().all().cpu())


def test_memory_that_another_stream_uses_waits_for_it_if_told() -> None:
    fakegpu.configure(lazy=1)
    side = torch.Stream(device=DEVICE)
    tensor = torch.ones(5000, device=DEVICE)
    address = tensor.data_ptr()
    side.wait_stream(torch.accelerator.current_stream(DEVICE))
    with side:
        total = tensor.sum()
    tensor.record_stream(side)
    del tensor
    other = torch.empty(5000, device=DEVICE)
    assert other.data_ptr() != address
    side.synchronize()
    assert total.cpu() == 5000
    assert torch.empty(5000, device=DEVICE).data_ptr() == address


def test_copies_of_page_locked_memory_are_asynchronous_and_others_make_the_host_wait() -> None:
    tensor = torch.arange(1000.0, device=DEVICE)
    place = torch.zeros(1000, pin_memory=True)
    before = fakegpu.counters()
    place.copy_(tensor, non_blocking=True)
    counted = fakegpu.counters() - before
    assert (counted.copies_out, counted.bytes_out, counted.pageable_copies, counted.host_waits) == (1, 4000, 0, 0)
    torch.accelerator.synchronize(1)
    assert torch.equal(place, torch.arange(1000.0))
    before = fakegpu.counters()
    plain = torch.zeros(1000)
    plain.copy_(tensor, non_blocking=True)
    counted = fakegpu.counters() - before
    assert (counted.pageable_copies, counted.host_waits) == (1, 1)


def test_memory_that_may_only_be_read_cannot_be_registered() -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    address = torch.frombuffer(bytearray(8), dtype=torch.uint8).data_ptr()
    assert fakegpu.host_register(address, 8) == 0
    assert fakegpu.host_register(address, 8) == 712
    fakegpu.host_unregister(address)
    read_only = np.frombuffer(memory, np.uint8).ctypes.data
    assert fakegpu.host_register(read_only, mmap.PAGESIZE) == 1
    assert fakegpu.host_register(read_only, mmap.PAGESIZE, flags=8) == 801


def test_a_device_thread_computes_backward_with_the_stream_of_forward() -> None:
    side = torch.Stream(device=DEVICE)
    layer = nn.Linear(8, 4).to(DEVICE)
    seen = []

    def hook(_: nn.Parameter) -> None:
        stream = torch.accelerator.current_stream(DEVICE).stream_id
        seen.append((torch.accelerator.current_device_index(), stream, threading.get_native_id()))

    for parameter in layer.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    side.wait_stream(torch.accelerator.current_stream(DEVICE))
    with side:
        loss = layer(torch.randn(3, 8, device=DEVICE)).sum()
    loss.backward()
    assert {(device, stream) for device, stream, _ in seen} == {(1, side.stream_id)}
    assert threading.get_native_id() not in {thread for _, _, thread in seen}


def test_errors_of_kernels_arrive_late_and_stick() -> None:
    fakegpu.configure(fail_kernel=2)
    torch.ones(4, device=DEVICE) + 1
    with pytest.raises(RuntimeError, match="illegal memory access"):
        torch.accelerator.synchronize(1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="illegal memory access"):
            torch.ones(4, device=DEVICE)


def test_too_little_memory_is_torchs_own_error() -> None:
    fakegpu.configure(memory_bytes=1 << 24)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 67108864 bytes on device 1"):
        torch.empty(1 << 24, device=DEVICE)


def test_each_device_has_a_generator_and_a_seed_of_its_own() -> None:
    torch.accelerator.set_device_index(1)
    torch.get_device_module("fakegpu").manual_seed(7)
    first = torch.rand(5, device=DEVICE).cpu()
    torch.rand(5, device="fakegpu:0")
    second = torch.rand(5, device=DEVICE).cpu()
    assert not torch.equal(first, second)
    torch.get_device_module("fakegpu").manual_seed(7)
    torch.rand(5, device="fakegpu:0")
    assert torch.equal(torch.rand(5, device=DEVICE).cpu(), first)
    assert torch.equal(torch.rand(5, device=DEVICE).cpu(), second)


def test_tensors_of_two_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="fakegpu:0") + torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3) + torch.ones(3, device=DEVICE)


def test_memory_that_is_shared_is_copied_within_its_device_alone() -> None:
    """Whoever maps it, as CUDA's driver gives access to one device; torch's own memory goes to another one."""
    shared = fakegpu.SharedMemory()
    theirs = shared.allocate(torch.device("fakegpu:0"), 8192).fill_(3)
    ours = shared.open(torch.device("fakegpu:1"), shared.export(theirs))
    torch.accelerator.synchronize(0)
    of_torch = torch.zeros(8192, dtype=torch.uint8, device="fakegpu:1")
    for source, target in ((theirs, of_torch), (of_torch, theirs[10:]), (ours, torch.zeros_like(theirs))):
        with pytest.raises(RuntimeError, match="memory that is mapped for one of them alone"):
            target.copy_(source[: len(target)])
    assert of_torch.copy_(theirs.clone()).sum() == of_torch.copy_(ours).sum() == 3 * 8192
