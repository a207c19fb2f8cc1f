#include "random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <array>

#include "settings.h"

namespace fakegpu {
namespace {

class Generator final : public c10::GeneratorImpl {
  public:
    explicit Generator(int device)
        : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device)),
                        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

    void set_current_seed(std::uint64_t seed) override { seed_ = seed, offset_ = 0; }
    std::uint64_t current_seed() const override { return seed_; }
    std::uint64_t seed() override {
        set_current_seed(c10::detail::getNonDeterministicRandom());
        return seed_;
    }
    void set_offset(std::uint64_t offset) override { offset_ = offset; }
    std::uint64_t get_offset() const override { return offset_; }
    void set_state(const c10::TensorImpl& state) override {
        const auto* words = static_cast<const std::uint64_t*>(state.data());
        seed_ = words[0], offset_ = words[1];
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        const at::Tensor state = at::empty({16}, at::kByte);
        auto* words = static_cast<std::uint64_t*>(state.data_ptr());
        words[0] = seed_, words[1] = offset_;
        return state.getIntrusivePtr();
    }
    std::uint64_t draw() {
        const std::lock_guard lock(mutex_);
        std::uint64_t mixed = seed_ + 0x9E3779B97F4A7C15U * ++offset_;
        mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
        return mixed ^ (mixed >> 31U);
    }

  private:
    Generator* clone_impl() const override {
        auto* copy = new Generator(device_.index());
        copy->seed_ = seed_, copy->offset_ = offset_;
        return copy;
    }
    std::uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

}  // namespace

at::Generator new_generator(int device) { return at::make_generator<Generator>(device); }

const at::Generator& default_generator(int device) {
    static const auto all = [] {
        std::array<at::Generator, kMostDevices> made;
        for (int each = 0; each < kMostDevices; ++each) made.at(each) = new_generator(each);
        return made;
    }();
    return all.at(device);
}

at::Generator drawn_from(const std::optional<at::Generator>& generator, int device) {
    const at::Generator& from = generator && generator->defined() ? *generator : default_generator(device);
    TORCH_CHECK(from.device().type() == c10::DeviceType::PrivateUse1, "Expected a 'fakegpu' device type for generator");
    return at::detail::createCPUGenerator(dynamic_cast<Generator&>(*from.unsafeGetGeneratorImpl()).draw());
}

}  // namespace fakegpu
