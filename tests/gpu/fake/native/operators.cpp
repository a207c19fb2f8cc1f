#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstdio>
#include <cstdlib>

#include "random.h"
#include "settings.h"
#include "tensors.h"

// Any operator: the Meta kernel says at once what shapes come out, the CPU kernel computes them later, in the stream.
namespace fakegpu {
namespace {

using c10::IValue, torch::jit::Stack;

// Calls action with every tensor in an argument, defined or not; false if it is something else.
template <class Action>
bool each_tensor(const IValue& value, const Action& action) {
    if (value.isTensor()) {
        action(value.toTensor());
    } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) action(tensor);
    } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
            action(tensor.value_or(at::Tensor()));
    } else {
        return false;
    }
    return true;
}

// The same argument with other tensors: what make gives for each, in order.
template <class Make>
IValue with_tensors(const IValue& value, const Make& make) {
    if (value.isTensor()) return make(value.toTensor());
    if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(make(tensor));
        return list;
    }
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor ? std::make_optional(make(*tensor)) : std::nullopt);
    }
    return list;
}

at::Tensor meta_of(const at::Tensor& tensor) {
    if (!on_device(tensor)) return tensor;
    return at::Tensor(at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
}

// One argument as it waits in the stream: tensors by address, anything else by value.
class Kept {
  public:
    explicit Kept(const IValue& value) : value_(value) {
        if (each_tensor(value, [this](const at::Tensor& tensor) { tensors_.emplace_back(tensor); })) {
            is_list_ = value.isTensorList();
            is_optional_list_ = value.isOptionalTensorList();
            is_tensor_ = !is_list_ && !is_optional_list_;
            value_ = IValue();  // the tensors themselves are not kept
        }
    }
    IValue on_cpu() const {
        if (is_tensor_) return tensors_[0].tensor();
        if (is_list_) {
            c10::List<at::Tensor> list;
            for (const Argument& each : tensors_) list.push_back(each.tensor());
            return list;
        }
        if (is_optional_list_) {
            c10::List<std::optional<at::Tensor>> list;
            for (const Argument& each : tensors_) {
                list.push_back(each.is_defined() ? std::make_optional(each.tensor()) : std::nullopt);
            }
            return list;
        }
        return value_;
    }
    const std::vector<Argument>& tensors() const { return tensors_; }

  private:
    IValue value_;
    std::vector<Argument> tensors_;
    bool is_tensor_ = false, is_list_ = false, is_optional_list_ = false;
};

// The CPU kernel; what it raises names the operator.
void compute(const c10::OperatorHandle& op, Stack* arguments) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    try {
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), arguments);
    } catch (const std::exception& error) {
        const std::string text = error.what();
        throw std::runtime_error(toString(op.operator_name()) + ": " + text.substr(0, text.find('\n')));
    }
}

class Call {
  public:
    Call(const c10::OperatorHandle& op, Stack* stack)
        : op_(op), schema_(op.schema()), stack_(stack), count_(schema_.arguments().size()) {
        const auto arguments = torch::jit::last(*stack, count_);
        arguments_.assign(arguments.begin(), arguments.end());
        for (const IValue& value : arguments_) {
            each_tensor(value, [this](const at::Tensor& tensor) { see(tensor); });
            if (value.isDevice() && value.toDevice().type() == kType && value.toDevice().has_index()) {
                device_ = value.toDevice().index();
            }
        }
        if (device_ < 0) device_ = current_device();
    }

    void run() {
        check_launch(device_);
        TORCH_CHECK(!op_.hasTag(at::Tag::nondeterministic_seeded) || schema_.argumentIndexWithName("generator"),
                    "FAKEGPU has no ", schema_.operator_name(), ": late, it would draw from the CPU's generator");
        for (const auto& result : schema_.returns()) {
            const bool tensors = result.type()->isSubtypeOf(*c10::TensorType::get()) ||
                                 result.type()->isSubtypeOf(*c10::ListType::ofTensors());
            if (!tensors) return run_now("what it gives is no tensor");
            TORCH_CHECK(result.alias_info() == nullptr || result.alias_info()->isWrite(), "FAKEGPU has no view ",
                        schema_.operator_name());
        }
        Stack shapes;
        try {
            shapes = shapes_of_results();
        } catch (const std::exception& error) {
            return run_now(error.what());  // they depend on the numbers, or there is no Meta kernel
        }
        launch(shapes);
    }

  private:
    void see(const at::Tensor& tensor) {
        if (!on_device(tensor)) return;
        TORCH_CHECK(device_ < 0 || device_ == tensor.device().index(), schema_.operator_name(),
                    ": Expected all tensors to be on the same device, but found at least two, fakegpu:", device_,
                    " and ", tensor.device());
        device_ = tensor.device().index();
    }

    Stack shapes_of_results() {
        Stack metas;
        for (const IValue& value : arguments_) {
            if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) {
                metas.push_back(with_tensors(value, meta_of));
            } else {
                metas.push_back(value.isDevice() ? IValue(c10::Device(c10::kMeta)) : value);
            }
        }
        given_ = metas;
        const at::AutoDispatchBelowADInplaceOrView guard;
        op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &metas);
        return metas;
    }

    // The CPU kernel while the host waits.
    void run_now(const char* why) {
        if (std::getenv("FAKEGPU_TRACE") != nullptr) {
            std::fprintf(stderr, "fakegpu: %s runs while the host waits: %.200s\n",
                         toString(schema_.operator_name()).c_str(), why);
        }
        host_waits_for_all(device_);
        at::native::cpu_fallback(op_, stack_);
    }

    void launch(const Stack& shapes) {
        std::vector<Kept> kept;
        for (std::size_t i = 0; i < count_; ++i) kept.emplace_back(to_keep(i));
        torch::jit::drop(*stack_, count_);
        std::vector<std::vector<Argument>> results;
        for (std::size_t r = 0; r < schema_.returns().size(); ++r) results.push_back(make_result(r, shapes[r]));
        count(kKernels);
        current_stream(device_).put([op = op_, kept = std::move(kept), results = std::move(results)] {
            if (is_due(settings.fail_kernel)) throw std::runtime_error("an illegal memory access was encountered");
            Stack cpu;
            std::vector<std::pair<at::Tensor, at::Tensor>> outputs;  // what a kernel may resize as it likes, its place
            for (std::size_t i = 0; i < kept.size(); ++i) {
                cpu.push_back(kept[i].on_cpu());
                if (!op.schema().arguments()[i].is_out() || !cpu.back().isTensor()) continue;
                const at::Tensor place = cpu.back().toTensor();
                outputs.emplace_back(at::empty({0}, place.options()), place);
                cpu.back() = outputs.back().first;
            }
            compute(op, &cpu);
            for (const auto& [found, place] : outputs) place.copy_(found);
            for (std::size_t r = 0; r < results.size(); ++r) {
                std::size_t i = 0;
                if (results[r].empty()) continue;
                each_tensor(cpu[r], [&](const at::Tensor& found) {
                    const Argument& result = results[r][i++];
                    if (!result.is_defined()) return;
                    const at::Tensor place = result.tensor();
                    // a CPU kernel may leave out what nobody reads without a gradient (batch norm in evaluation)
                    if (found.numel() != 0) place.copy_(found);
                });
            }
        });
    }

    // An argument as the CPU kernel will have it; an output that is written grows if it must.
    IValue to_keep(std::size_t i) {
        const IValue& value = arguments_[i];
        const auto& argument = schema_.arguments()[i];
        if (value.isTensor() && on_device(value.toTensor()) && argument.alias_info() != nullptr &&
            argument.alias_info()->isWrite() && given_[i].toTensor().sizes() != value.toTensor().sizes()) {
            resize(value.toTensor(), given_[i].toTensor().sizes());
        }
        if (argument.name() == "generator") {
            return drawn_from(value.isNone() ? std::nullopt : std::make_optional(value.toGenerator()), device_);
        }
        return value.isDevice() ? IValue(c10::Device(c10::kCPU)) : value;
    }

    // Puts result r on the stack; where to write it, nothing if that is an argument.
    std::vector<Argument> make_result(std::size_t r, const IValue& shape) {
        std::vector<Argument> places;
        if (const auto* alias = schema_.returns()[r].alias_info()) {
            for (std::size_t i = 0; i < count_; ++i) {
                const auto* of = schema_.arguments()[i].alias_info();
                if (of != nullptr && *of == *alias) {
                    stack_->push_back(arguments_[i]);
                    return places;
                }
            }
        }
        stack_->push_back(with_tensors(shape, [&](const at::Tensor& meta) {
            const at::Tensor made =
                meta.defined() ? empty_strided_on(device_, meta.sizes(), meta.strides(), meta.scalar_type()) : meta;
            places.emplace_back(made);
            return made;
        }));
        return places;
    }

    const c10::OperatorHandle& op_;
    const c10::FunctionSchema& schema_;
    Stack* stack_;
    std::size_t count_;
    std::vector<IValue> arguments_;
    Stack given_;  // the arguments on the meta device, those that are written as they come out
    int device_ = -1;
};

void fallback(const c10::OperatorHandle& op, Stack* stack) { Call(op, stack).run(); }

// Where CPU and CUDA differ in the shapes of what nobody reads without a gradient. As CUDA.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> embedding_bag(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool scale_by_frequency,
    std::int64_t mode, bool sparse, const std::optional<at::Tensor>& per_sample, bool include_last,
    std::int64_t padding) {
    const int device = weight.device().index();
    check_launch(device);
    const std::int64_t bags = offsets.size(0) - (include_last ? 1 : 0), columns = weight.size(1);
    const auto unread = [&] { return empty_strided_on(device, {0}, {1}, at::kLong); };
    at::Tensor out = empty_strided_on(device, {bags, columns}, {columns, 1}, weight.scalar_type());
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_embedding_bag_forward_only", "");
    const Argument table(weight), which(indices), where(offsets), times(per_sample.value_or(at::Tensor())), to(out);
    count(kKernels);
    current_stream(device).put([=] {
        if (is_due(settings.fail_kernel)) throw std::runtime_error("an illegal memory access was encountered");
        const at::AutoDispatchBelowADInplaceOrView guard;
        Stack cpu{table.tensor(),
                  which.tensor(),
                  where.tensor(),
                  scale_by_frequency,
                  mode,
                  sparse,
                  times.is_defined() ? IValue(times.tensor()) : IValue(),
                  include_last,
                  padding};
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &cpu);
        to.tensor().copy_(cpu[0].toTensor());
    });
    return {std::move(out), unread(), unread(), unread()};
}

// Has no argument for a generator: the kernel, run late, would draw from the CPU's.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
    if (!train.value_or(true) || p == 0) return {input.clone(), at::ones_like(input, at::kBool)};
    at::Tensor mask = at::empty_like(input, at::kBool).bernoulli_(1 - p);
    return {input.mul(mask).mul_(p == 1 ? 0 : 1 / (1 - p)), mask};
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("_embedding_bag_forward_only", embedding_bag);
    m.impl("_embedding_bag", embedding_bag);
    m.impl("native_dropout", native_dropout);
}

}  // namespace fakegpu
