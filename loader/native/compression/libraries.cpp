#include "compression/libraries.h"

#include <dlfcn.h>

#include <initializer_list>
#include <optional>

namespace sparsepool::packed {
namespace {

// Loads functions of a shared library, which stays open until the process ends.
class Library {
  public:
    // Opens the first library of these names that the system has.
    explicit Library(std::initializer_list<const char*> names) {
        for (const char* name : names) {
            if (handle_ == nullptr) handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
        has_all_ = handle_ != nullptr;
    }

    template <typename Function>
    void load(Function*& function, const char* name) {
        void* address = has_all_ ? ::dlsym(handle_, name) : nullptr;
        has_all_ = address != nullptr;
        function = reinterpret_cast<Function*>(address);
    }

    // Whether the library and all functions were there.
    [[nodiscard]] bool has_all() const { return has_all_; }

  private:
    void* handle_ = nullptr;
    bool has_all_ = false;
};

std::optional<Zlib> open_zlib() {
    Library library({"libz.so.1"});
    Zlib zlib{};
    library.load(zlib.inflate_init, "inflateInit2_");
    library.load(zlib.inflate, "inflate");
    library.load(zlib.inflate_end, "inflateEnd");
    library.load(zlib.inflate_reset, "inflateReset2");
    library.load(zlib.inflate_prime, "inflatePrime");
    library.load(zlib.inflate_set_dictionary, "inflateSetDictionary");
    library.load(zlib.inflate_get_dictionary, "inflateGetDictionary");
    library.load(zlib.crc32, "crc32");
    return library.has_all() ? std::optional(zlib) : std::nullopt;
}

std::optional<Zstd> open_zstd() {
    Library library({"libzstd.so.1"});
    Zstd zstd{};
    library.load(zstd.make_decoder, "ZSTD_createDCtx");
    library.load(zstd.free_decoder, "ZSTD_freeDCtx");
    library.load(zstd.reset_decoder, "ZSTD_DCtx_reset");
    library.load(zstd.decode, "ZSTD_decompressStream");
    library.load(zstd.decoded_size, "ZSTD_DStreamOutSize");
    library.load(zstd.make_encoder, "ZSTD_createCCtx");
    library.load(zstd.free_encoder, "ZSTD_freeCCtx");
    library.load(zstd.set_parameter, "ZSTD_CCtx_setParameter");
    library.load(zstd.encode, "ZSTD_compressStream2");
    library.load(zstd.encoded_size, "ZSTD_CStreamOutSize");
    library.load(zstd.is_error, "ZSTD_isError");
    library.load(zstd.error_name, "ZSTD_getErrorName");
    return library.has_all() ? std::optional(zstd) : std::nullopt;
}

std::optional<Bzip2> open_bzip2() {
    Library library({"libbz2.so.1.0", "libbz2.so.1"});  // Debian's name, and Fedora's
    Bzip2 bzip2{};
    library.load(bzip2.begin, "BZ2_bzDecompressInit");
    library.load(bzip2.decode, "BZ2_bzDecompress");
    library.load(bzip2.end, "BZ2_bzDecompressEnd");
    return library.has_all() ? std::optional(bzip2) : std::nullopt;
}

}  // namespace

const Zlib* zlib() {
    static const std::optional<Zlib> library = open_zlib();
    return library ? &*library : nullptr;
}

const Zstd* zstd() {
    static const std::optional<Zstd> library = open_zstd();
    return library ? &*library : nullptr;
}

const Bzip2* bzip2() {
    static const std::optional<Bzip2> library = open_bzip2();
    return library ? &*library : nullptr;
}

}  // namespace sparsepool::packed
