#include "compression/libraries.h"

#include <dlfcn.h>

#include <initializer_list>
#include <optional>

namespace sparsepool::packed {
namespace {

// Functions of a library, by their names; the library stays open as long as the process lives.
class Library {
  public:
    // The first of these names that is there.
    explicit Library(std::initializer_list<const char*> names) {
        for (const char* name : names) {
            if (handle_ == nullptr) handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
        whole_ = handle_ != nullptr;
    }

    template <typename Function>
    void find(Function*& function, const char* name) {
        void* found = whole_ ? ::dlsym(handle_, name) : nullptr;
        whole_ = found != nullptr;
        function = reinterpret_cast<Function*>(found);
    }

    [[nodiscard]] bool whole() const { return whole_; }

  private:
    void* handle_ = nullptr;
    bool whole_ = false;
};

std::optional<Zlib> open_zlib() {
    Library library({"libz.so.1"});
    Zlib zlib{};
    library.find(zlib.inflate_init, "inflateInit2_");
    library.find(zlib.inflate, "inflate");
    library.find(zlib.inflate_end, "inflateEnd");
    library.find(zlib.inflate_reset, "inflateReset2");
    library.find(zlib.inflate_prime, "inflatePrime");
    library.find(zlib.inflate_set_dictionary, "inflateSetDictionary");
    library.find(zlib.inflate_get_dictionary, "inflateGetDictionary");
    library.find(zlib.crc32, "crc32");
    return library.whole() ? std::optional(zlib) : std::nullopt;
}

std::optional<Zstd> open_zstd() {
    Library library({"libzstd.so.1"});
    Zstd zstd{};
    library.find(zstd.make_decoder, "ZSTD_createDCtx");
    library.find(zstd.free_decoder, "ZSTD_freeDCtx");
    library.find(zstd.reset_decoder, "ZSTD_DCtx_reset");
    library.find(zstd.decode, "ZSTD_decompressStream");
    library.find(zstd.decoded_size, "ZSTD_DStreamOutSize");
    library.find(zstd.make_encoder, "ZSTD_createCCtx");
    library.find(zstd.free_encoder, "ZSTD_freeCCtx");
    library.find(zstd.set_parameter, "ZSTD_CCtx_setParameter");
    library.find(zstd.encode, "ZSTD_compressStream2");
    library.find(zstd.encoded_size, "ZSTD_CStreamOutSize");
    library.find(zstd.is_error, "ZSTD_isError");
    library.find(zstd.error_name, "ZSTD_getErrorName");
    return library.whole() ? std::optional(zstd) : std::nullopt;
}

std::optional<Bzip2> open_bzip2() {
    Library library({"libbz2.so.1.0", "libbz2.so.1"});  // Debian's name, and Fedora's
    Bzip2 bzip2{};
    library.find(bzip2.begin, "BZ2_bzDecompressInit");
    library.find(bzip2.decode, "BZ2_bzDecompress");
    library.find(bzip2.end, "BZ2_bzDecompressEnd");
    return library.whole() ? std::optional(bzip2) : std::nullopt;
}

}  // namespace

const Zlib* zlib() {
    static const std::optional<Zlib> opened = open_zlib();
    return opened ? &*opened : nullptr;
}

const Zstd* zstd() {
    static const std::optional<Zstd> opened = open_zstd();
    return opened ? &*opened : nullptr;
}

const Bzip2* bzip2() {
    static const std::optional<Bzip2> opened = open_bzip2();
    return opened ? &*opened : nullptr;
}

}  // namespace sparsepool::packed
