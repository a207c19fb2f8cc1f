// NVIDIA's driver library without a GPU: what cuda-bindings finds as libcuda.so.1. It does what the documentation of
// the driver promises of the calls that the pool makes, and grants nothing more.
//
// Memory of a device is a memfd. A kernel called `fill` (fill.cu) is done by the host, at once; any other does nothing.
// What a kernel has done wrong is said by the context's next call, and by every call after that.
//
// stub_begin and stub_fail are for tests.

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace {

enum Status : int {
    kSuccess = 0,
    kInvalidValue = 1,
    kOutOfMemory = 2,
    kNotInitialized = 3,
    kInvalidDevice = 101,
    kInvalidImage = 200,
    kInvalidContext = 201,
    kInvalidHandle = 400,
    kNotFound = 500,
    kIllegalAddress = 700,
    kNotSupported = 801,
};

constexpr std::size_t kUnit = std::size_t{2} << 20;  // that memory is made in
constexpr int kOnDevice = 1, kPinned = 1, kDescriptor = 1, kReadAndWrite = 3;

struct Location {
    int type, id;
};
struct AllocationProp {
    int type, handle_types;
    Location location;
    void* windows;
    unsigned char flags[8];
};
struct AccessDesc {
    Location location;
    int flags;
};

struct Context {
    int device;
    Status fault = kSuccess;  // that every further call says
};
struct Module {
    const Context* context;
    std::string image;  // a copy, as the driver takes one
};
struct Function {
    const Context* context;
    std::string name;
};
struct Allocation {
    int fd, device;
    std::size_t nbytes;
    bool is_own;  // made by this process
};
struct Range {  // of addresses
    std::size_t nbytes;
    const Allocation* memory = nullptr;
    std::set<int> granted{};  // devices
};
struct Fault {
    int status;
    bool sticks;
};

std::mutex mutex;
unsigned generation = 0;  // of stub_begin
int process = 0;          // that has initialized the driver
int devices = 1;
std::size_t room = SIZE_MAX;  // bytes of each device
std::map<int, Context*> primary;
std::map<std::string, Fault, std::less<>> faults;
std::map<std::uintptr_t, Range> ranges;
std::list<Module> modules;
std::list<Function> functions;
std::list<Allocation> allocations;

struct Current {
    unsigned generation = 0;
    Context* context = nullptr;
};
thread_local Current current;

Context* current_context() { return current.generation == generation ? current.context : nullptr; }

// What a test has asked the call to fail with.
Status injected(std::string_view call) {
    const auto found = faults.find(call);
    if (found == faults.end()) return kSuccess;
    const Fault fault = found->second;
    faults.erase(found);
    if (Context* context = current_context(); context != nullptr && fault.sticks) {
        context->fault = static_cast<Status>(fault.status);
    }
    return static_cast<Status>(fault.status);
}

Status begin(std::string_view call) { return process == getpid() ? injected(call) : kNotInitialized; }

// The same of a call that needs a context.
Status begin(std::string_view call, Context*& context) {
    if (process != getpid()) return kNotInitialized;  // also in a process that was forked
    context = current_context();
    if (context == nullptr) return kInvalidContext;
    return context->fault == kSuccess ? injected(call) : context->fault;
}

bool is_device(int device) { return device >= 0 && device < devices; }

// The range that holds all of these bytes; nullptr: none does.
Range* range_of(std::uintptr_t address, std::size_t nbytes) {
    auto found = ranges.upper_bound(address);
    if (found == ranges.begin()) return nullptr;
    --found;
    return address + nbytes <= found->first + found->second.nbytes ? &found->second : nullptr;
}

bool may_use(const Context& context, std::uintptr_t address, std::size_t nbytes) {
    const Range* range = range_of(address, nbytes);
    return range != nullptr && range->granted.contains(context.device);
}

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

std::size_t used_by(int device) {
    std::size_t nbytes = 0;
    for (const Allocation& each : allocations) nbytes += each.is_own && each.device == device ? each.nbytes : 0;
    return nbytes;
}

}  // namespace

#define STUB extern "C" __attribute__((visibility("default"))) int

// --- for tests ---

// As in a process that has not used the driver. `nbytes`: room on each device. None may use another's memory.
STUB stub_begin(int count, std::size_t nbytes) {
    const std::lock_guard lock(mutex);
    ++generation;
    process = 0, devices = count, room = nbytes;
    primary.clear(), faults.clear(), allocations.clear();
    return kSuccess;
}

// The next call of a function fails; `sticks`: every call of its context from then on.
STUB stub_fail(const char* function, int status, int sticks) {
    const std::lock_guard lock(mutex);
    faults[function] = {status, sticks != 0};
    return kSuccess;
}

// --- the driver ---

STUB cuInit(unsigned) {
    const std::lock_guard lock(mutex);
    process = getpid();
    return kSuccess;
}

STUB cuGetProcAddress_v2(const char* symbol, void** function, int, std::uint64_t, int* found) {
    static void* const self = [] {
        Dl_info info{};
        dladdr(reinterpret_cast<const void*>(&cuInit), &info);
        return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }();
    const bool itself = std::string_view(symbol) == "cuGetProcAddress";  // of CUDA 12: that name's second version
    *function = dlsym(self, itself ? "cuGetProcAddress_v2" : symbol);
    if (found != nullptr) *found = *function == nullptr ? 1 : 0;
    return *function == nullptr ? kNotFound : kSuccess;
}

STUB cuDriverGetVersion(int* version) {  // needs no cuInit
    *version = 13000;
    return kSuccess;
}

STUB cuDeviceGet(int* device, int ordinal) {
    const std::lock_guard lock(mutex);
    if (const Status status = begin("cuDeviceGet")) return status;
    if (!is_device(ordinal)) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
}

STUB cuDevicePrimaryCtxRetain(Context** context, int device) {
    const std::lock_guard lock(mutex);
    if (const Status status = begin("cuDevicePrimaryCtxRetain")) return status;
    if (!is_device(device)) return kInvalidDevice;
    Context*& found = primary[device];
    if (found == nullptr) found = new Context{device};  // never destroyed: a thread may still name it
    *context = found;
    return kSuccess;
}

STUB cuCtxGetCurrent(Context** context) {
    const std::lock_guard lock(mutex);
    if (const Status status = begin("cuCtxGetCurrent")) return status;
    *context = current_context();
    return kSuccess;
}

STUB cuCtxSetCurrent(Context* context) {
    const std::lock_guard lock(mutex);
    if (const Status status = begin("cuCtxSetCurrent")) return status;
    current = {generation, context};
    return kSuccess;
}

STUB cuCtxSynchronize() {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    return begin("cuCtxSynchronize", context);
}

// `image`: a cubin.
STUB cuModuleLoadData(Module** module, const void* image) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuModuleLoadData", context)) return status;
    Elf64_Ehdr header{};
    std::memcpy(&header, image, sizeof header.e_ident);
    if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return kInvalidImage;
    std::memcpy(&header, image, sizeof header);
    constexpr int kCuda = 190;  // EM_CUDA
    if (header.e_machine != kCuda) return kInvalidImage;
    const std::size_t sections = header.e_shoff + std::size_t{header.e_shentsize} * header.e_shnum;
    const std::size_t segments = header.e_phoff + std::size_t{header.e_phentsize} * header.e_phnum;
    modules.push_back({context, {static_cast<const char*>(image), std::max(sections, segments)}});
    *module = &modules.back();
    return kSuccess;
}

STUB cuModuleGetFunction(Function** function, Module* module, const char* name) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuModuleGetFunction", context)) return status;
    if (module->context != context) return kInvalidHandle;
    const std::string section = std::string(".text.") + name + '\0';
    if (module->image.find(section) == std::string_view::npos) return kNotFound;
    functions.push_back({context, name});
    *function = &functions.back();
    return kSuccess;
}

STUB cuLaunchKernel(const Function* function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                    unsigned threads_y, unsigned threads_z, unsigned, void*, void** parameters, void**) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuLaunchKernel", context)) return status;
    if (function == nullptr || function->context != context) return kInvalidHandle;
    constexpr unsigned kMostAcross = INT_MAX, kMostDown = 65535, kMostThreads = 1024, kMostThreadsZ = 64;
    const auto within = [](unsigned value, unsigned most) { return value >= 1 && value <= most; };
    if (!within(x, kMostAcross) || !within(y, kMostDown) || !within(z, kMostDown)) return kInvalidValue;
    if (!within(threads_x, kMostThreads) || !within(threads_y, kMostThreads) || !within(threads_z, kMostThreadsZ) ||
        threads_x * threads_y * threads_z > kMostThreads) {
        return kInvalidValue;
    }
    if (function->name != "fill") return kSuccess;
    std::uintptr_t address = 0;
    std::uint32_t nbytes = 0, value = 0;
    std::memcpy(&address, parameters[0], sizeof address);
    std::memcpy(&nbytes, parameters[1], sizeof nbytes);
    std::memcpy(&value, parameters[2], sizeof value);
    if (may_use(*context, address, nbytes)) {
        std::memset(pointer(address), static_cast<int>(value), nbytes);
    } else {
        context->fault = kIllegalAddress;
    }
    return kSuccess;
}

STUB cuMemcpyDtoH(void* host, std::uintptr_t address, std::size_t nbytes) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemcpyDtoH", context)) return status;
    if (!may_use(*context, address, nbytes)) return kInvalidValue;
    std::memcpy(host, pointer(address), nbytes);
    return kSuccess;
}

STUB cuMemGetAllocationGranularity(std::size_t* unit, const AllocationProp* wanted, int) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemGetAllocationGranularity", context)) return status;
    if (wanted->location.type != kOnDevice || !is_device(wanted->location.id)) return kInvalidDevice;
    *unit = kUnit;
    return kSuccess;
}

STUB cuMemCreate(const Allocation** handle, std::size_t nbytes, const AllocationProp* wanted, std::uint64_t flags) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemCreate", context)) return status;
    const int device = wanted->location.id;
    if (wanted->location.type != kOnDevice || !is_device(device)) return kInvalidDevice;
    if (wanted->type != kPinned || flags != 0 || nbytes == 0 || nbytes % kUnit != 0) return kInvalidValue;
    if (wanted->handle_types != kDescriptor) return kNotSupported;
    if (used_by(device) + nbytes > room) return kOutOfMemory;
    const int fd = memfd_create(("device-" + std::to_string(device)).c_str(), MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(nbytes)) != 0) return kOutOfMemory;
    allocations.push_back({fd, device, nbytes, true});
    *handle = &allocations.back();
    return kSuccess;
}

STUB cuMemAddressReserve(std::uintptr_t* address, std::size_t nbytes, std::size_t, std::uintptr_t, std::uint64_t) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemAddressReserve", context)) return status;
    if (nbytes == 0 || nbytes % kUnit != 0) return kInvalidValue;
    void* found = mmap(nullptr, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) return kOutOfMemory;
    *address = reinterpret_cast<std::uintptr_t>(found);
    ranges[*address] = {nbytes};
    return kSuccess;
}

STUB cuMemMap(std::uintptr_t address, std::size_t nbytes, std::size_t offset, const Allocation* handle, std::uint64_t) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemMap", context)) return status;
    const auto found = ranges.find(address);
    if (found == ranges.end() || found->second.memory != nullptr || offset != 0) return kInvalidValue;
    if (nbytes != found->second.nbytes || nbytes != handle->nbytes) return kInvalidValue;
    if (mmap(pointer(address), nbytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd, 0) == MAP_FAILED) {
        return kOutOfMemory;
    }
    found->second.memory = handle;
    return kSuccess;
}

STUB cuMemSetAccess(std::uintptr_t address, std::size_t nbytes, const AccessDesc* wanted, std::size_t count) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemSetAccess", context)) return status;
    Range* range = range_of(address, nbytes);
    if (range == nullptr || range->memory == nullptr || nbytes != range->nbytes) return kInvalidValue;
    for (const AccessDesc* each = wanted; each != wanted + count; ++each) {
        const int device = each->location.id;
        if (each->location.type != kOnDevice || !is_device(device)) return kInvalidDevice;
        if (device != range->memory->device) return kInvalidDevice;
        if (each->flags != kReadAndWrite) return kNotSupported;
        range->granted.insert(device);
    }
    return mprotect(pointer(address), nbytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}

STUB cuMemExportToShareableHandle(void* descriptor, const Allocation* handle, int kind, std::uint64_t flags) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemExportToShareableHandle", context)) return status;
    if (kind != kDescriptor || flags != 0) return kInvalidValue;
    const int copy = dup(handle->fd);
    std::memcpy(descriptor, &copy, sizeof copy);
    return copy < 0 ? kOutOfMemory : kSuccess;
}

// The descriptor stays the caller's.
STUB cuMemImportFromShareableHandle(const Allocation** handle, std::intptr_t descriptor, int kind) {
    const std::lock_guard lock(mutex);
    Context* context = nullptr;
    if (const Status status = begin("cuMemImportFromShareableHandle", context)) return status;
    if (kind != kDescriptor) return kInvalidValue;
    std::array<char, 64> name{};
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    struct stat file{};
    int device = 0;
    if (readlink(link.c_str(), name.data(), name.size() - 1) < 0 || stat(link.c_str(), &file) != 0 ||
        std::sscanf(name.data(), "/memfd:device-%d", &device) != 1) {
        return kInvalidValue;
    }
    allocations.push_back({dup(static_cast<int>(descriptor)), device, static_cast<std::size_t>(file.st_size), false});
    *handle = &allocations.back();
    return kSuccess;
}

// NVRTC asks for a table of its own, and does without.
STUB cuGetExportTable(const void** table, const void*) {
    *table = nullptr;
    return kNotFound;
}
