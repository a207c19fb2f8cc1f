#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstring>

#include "memory.h"
#include "settings.h"
#include "tensors.h"

// Copies between host and device and on a device. Page-locked memory of the host is copied later, by the stream, if it
// is one run of bytes; any other is read at once, and when it is to be written the host waits.
namespace fakegpu {
namespace {

bool is_one_run(const at::Tensor& from, const at::Tensor& to) {
    return from.is_contiguous() && to.is_contiguous() && from.scalar_type() == to.scalar_type() &&
           from.sizes() == to.sizes();
}

void copy_in(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    const std::size_t nbytes = to.nbytes();
    const bool direct = is_one_run(from, to) && is_page_locked(from.const_data_ptr(), nbytes);
    Stream& stream = current_stream(to.device().index());
    const Argument device(to);
    count(kCopiesIn), count(kBytesIn, static_cast<std::int64_t>(nbytes));
    std::uint64_t ticket = 0;
    if (direct) {
        char* address = memory(to.device().index()).of_kernels(to.const_data_ptr());
        const void* host = from.const_data_ptr();
        ticket = stream.put([address, host, nbytes] { std::memcpy(address, host, nbytes); }, nbytes);
    } else {
        count(kPageableCopies);
        ticket = stream.put(
            [device, staged = from.clone()] { device.tensor().copy_(staged.expand(device.tensor().sizes())); }, nbytes);
    }
    if (!non_blocking) host_waits_for(stream, ticket);
}

void copy_out(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    const std::size_t nbytes = to.nbytes();
    const bool direct = is_one_run(from, to) && is_page_locked(to.const_data_ptr(), nbytes);
    Stream& stream = current_stream(from.device().index());
    count(kCopiesOut), count(kBytesOut, static_cast<std::int64_t>(nbytes));
    if (!direct) {
        count(kPageableCopies);
        const Argument device(from);
        host_waits_for(stream, stream.put([device, to] { to.copy_(device.tensor().expand(to.sizes())); }, nbytes));
        return;
    }
    void* host = to.data_ptr();
    std::memset(host, 0xFF, nbytes);  // what it holds until the copy is done is nobody's to know
    const char* address = memory(from.device().index()).of_kernels(from.const_data_ptr());
    const std::uint64_t ticket = stream.put([address, host, nbytes] { std::memcpy(host, address, nbytes); }, nbytes);
    if (!non_blocking) host_waits_for(stream, ticket);
}

bool is_mapped(const at::Tensor& tensor) { return memory(tensor.device().index()).is_mapped(tensor.const_data_ptr()); }

void copy_within(const at::Tensor& from, const at::Tensor& to) {
    if (from.device() != to.device() && (is_mapped(from) || is_mapped(to))) {
        // CUDA says so or copies rubbish, by what it and the devices are.
        throw std::runtime_error("FAKEGPU: a copy between devices of memory that is mapped for one of them alone");
    }
    Stream& source = current_stream(from.device().index());
    Stream& target = current_stream(to.device().index());
    const Argument a(from), b(to);
    count(kCopiesWithin);
    make_wait(source, record(target));  // as CUDA: between devices both streams stand in line
    source.put([a, b] { b.tensor().copy_(a.tensor().expand(b.tensor().sizes())); });
    make_wait(target, record(source));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    check_launch((on_device(from) ? from : to).device().index());
    if (to.numel() == 0) return to;
    if (!on_device(from)) {
        copy_in(from, to, non_blocking);
    } else if (!on_device(to)) {
        copy_out(from, to, non_blocking);
    } else {
        copy_within(from, to);
    }
    return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
    resize(to, from.sizes());
    return copy_from(from, to, false);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
}

}  // namespace fakegpu
