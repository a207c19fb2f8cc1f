#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <cstring>

#include "allocators.h"
#include "memory.h"
#include "random.h"
#include "settings.h"
#include "streams.h"
#include "tensors.h"

// What torch asks of a device: memory, streams, events.
namespace fakegpu {
namespace {

using c10::Device, c10::DeviceIndex, c10::StreamId;

DeviceIndex index_of(Device device) {
    return device.has_index() ? device.index() : static_cast<DeviceIndex>(current_device());
}

void check_index(Device device) {
    TORCH_CHECK(index_of(device) < settings.devices, "FAKEGPU error: invalid device ordinal ", device);
}

class DeviceAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(std::size_t nbytes) override {
        check_device(current_device());
        const Device device(kType, static_cast<DeviceIndex>(current_device()));
        try {
            char* address = memory(device.index()).allocate(nbytes);
            return {address, address, &release, device};
        } catch (const OutOfMemory& error) {
            TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
        }
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t nbytes) const override {
        DeviceMemory& its = memory(current_device());
        current_stream(current_device()).put([to = its.of_kernels(to), from = its.of_kernels(from), nbytes] {
            std::memcpy(to, from, nbytes);
        });
    }

  private:
    static void release(void* address) {
        if (DeviceMemory* its = memory_of(address)) its->free(address);
    }
};

class PageLockedAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(std::size_t nbytes) override {
        constexpr std::size_t kPage = 4096;
        const std::size_t whole = (std::max<std::size_t>(nbytes, 1) + kPage - 1) / kPage * kPage;
        void* address = std::aligned_alloc(kPage, whole);
        page_lock(address, whole);
        return {address, address, &release, Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t nbytes) const override { std::memcpy(to, from, nbytes); }

  private:
    static void release(void* address) {
        page_unlock(address);
        std::free(address);
    }
};

DeviceAllocator the_device_allocator;
PageLockedAllocator the_page_locked_allocator;
REGISTER_ALLOCATOR(kType, &the_device_allocator);

class Guard final : public c10::impl::DeviceGuardImplInterface {
  public:
    static constexpr auto static_type = kType;

    c10::DeviceType type() const override { return kType; }
    DeviceIndex deviceCount() const noexcept override { return static_cast<DeviceIndex>(settings.devices.load()); }
    Device getDevice() const override { return {kType, static_cast<DeviceIndex>(current_device())}; }
    Device exchangeDevice(Device device) const override {
        const Device old = getDevice();
        setDevice(device);
        return old;
    }
    void setDevice(Device device) const override {
        check_index(device);
        set_current_device(index_of(device));
    }
    void uncheckedSetDevice(Device device) const noexcept override { set_current_device(index_of(device)); }

    c10::Stream getStream(Device device) const override { return named(device, current_stream_id(index_of(device))); }
    c10::Stream getDefaultStream(Device device) const override { return named(device, 0); }
    c10::Stream getNewStream(Device device, int /*priority*/) const override {
        check_index(device);
        return named(device, new_stream(index_of(device)));
    }
    c10::Stream getStreamFromGlobalPool(Device device, bool /*urgent*/) const override {
        return getNewStream(device, 0);
    }
    c10::Stream exchangeStream(c10::Stream other) const override {
        const c10::Stream old = getStream(other.device());
        set_current_stream(other.device_index(), other.id());
        return old;
    }
    bool queryStream(const c10::Stream& which) const override {
        check_device(which.device_index());
        return of(which).is_done(of(which).newest());
    }
    void synchronizeStream(const c10::Stream& which) const override { host_waits_for(of(which), of(which).newest()); }
    void synchronizeDevice(DeviceIndex device) const override { host_waits_for_all(device); }

    void record(void** event, const c10::Stream& which, DeviceIndex /*device*/,
                c10::EventFlag /*flag*/) const override {
        auto recording = fakegpu::record(of(which));
        if (*event == nullptr) *event = new Event;
        *static_cast<Event*>(*event) = std::move(recording);
    }
    void block(void* event, const c10::Stream& which) const override {
        if (event != nullptr) make_wait(of(which), *static_cast<Event*>(event));
    }
    bool queryEvent(void* event) const override {
        if (event == nullptr) return true;
        const Event& recording = *static_cast<Event*>(event);
        check_device(recording->stream->device);
        return recording->stream->is_done(recording->ticket);
    }
    void synchronizeEvent(void* event) const override {
        if (event == nullptr) return;
        const Event recording = *static_cast<Event*>(event);
        count(kEventWaits);
        host_waits_for(*recording->stream, recording->ticket);
    }
    void destroyEvent(void* event, DeviceIndex /*device*/) const noexcept override {
        delete static_cast<Event*>(event);
    }
    double elapsedTime(void* from, void* to, DeviceIndex /*device*/) const override {
        const Event &begin = *static_cast<Event*>(from), &end = *static_cast<Event*>(to);
        TORCH_CHECK(begin->stream->is_done(begin->ticket) && end->stream->is_done(end->ticket),
                    "Both events must be completed before calculating elapsed time.");
        return std::chrono::duration<double, std::milli>(end->time - begin->time).count();
    }
    void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& which) const override {
        if (data.get() != nullptr) memory(which.device_index()).used_on(data.get_context(), which.id());
    }

  private:
    using Event = std::shared_ptr<Recording>;

    static Stream& of(const c10::Stream& which) { return stream(which.device_index(), which.id()); }
    static c10::Stream named(Device device, StreamId id) {
        return c10::Stream(c10::Stream::UNSAFE, Device(kType, index_of(device)), id);
    }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

class Hooks final : public at::PrivateUse1HooksInterface {
  public:
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return settings.devices > 0; }
    bool hasPrimaryContext(DeviceIndex /*device*/) const override { return is_open(); }
    void init() const override { open_device(); }
    DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(settings.devices.load()); }
    void setCurrentDevice(DeviceIndex device) const override {
        check_index(Device(kType, device));
        use_device(device);
        check_device(device);
        set_current_device(device);
    }
    DeviceIndex getCurrentDevice() const override { return static_cast<DeviceIndex>(current_device()); }
    DeviceIndex exchangeDevice(DeviceIndex device) const override {
        const DeviceIndex old = getCurrentDevice();
        setCurrentDevice(device);
        return old;
    }
    DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
    bool isPinnedPtr(const void* address) const override { return is_page_locked(address); }
    c10::Allocator* getPinnedMemoryAllocator() const override { return &the_page_locked_allocator; }
    Device getDeviceFromPtr(void* address) const override {
        for (DeviceIndex device = 0; device < settings.devices; ++device) {
            if (memory(device).has(address)) return {kType, device};
        }
        TORCH_CHECK(false, "FAKEGPU: this is no device's memory");
    }
    const at::Generator& getDefaultGenerator(DeviceIndex device) const override {
        return default_generator(device < 0 ? current_device() : device);
    }
    at::Generator getNewGenerator(DeviceIndex device) const override {
        return new_generator(device < 0 ? current_device() : device);
    }
};

const bool hooks_are_registered = (at::RegisterPrivateUse1HooksInterface(new Hooks), true);

}  // namespace

c10::Allocator& device_allocator() { return the_device_allocator; }
c10::Allocator& page_locked_allocator() { return the_page_locked_allocator; }

}  // namespace fakegpu
