// zlib, zstd and bzip2 as the machine has them. They are opened when the first compressed file is, so none is needed to
// build this program or to start it. What is declared here of them does not change: zlib.h since 1.2.8, zstd.h
// since 1.4.0, bzlib.h since 1.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparsepool::packed {

struct ZlibStream {  // z_stream
    const std::uint8_t* next_in;
    unsigned avail_in;
    unsigned long total_in;
    std::uint8_t* next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char* message;
    void* state;
    void* (*allocate)(void*, unsigned, unsigned);
    void (*free)(void*, void*);
    void* opaque;
    int data_type;
    unsigned long adler;
    unsigned long reserved;
};

struct Zlib {
    static constexpr int kOk = 0;
    static constexpr int kStreamEnd = 1;
    static constexpr int kMemoryError = -4;
    static constexpr int kBufferError = -5;
    static constexpr int kBlock = 5;  // Z_BLOCK: stop at the end of a block

    int (*inflate_init)(ZlibStream*, int window_bits, const char* version, int stream_size);
    int (*inflate)(ZlibStream*, int flush);
    int (*inflate_end)(ZlibStream*);
    int (*inflate_reset)(ZlibStream*, int window_bits);
    int (*inflate_prime)(ZlibStream*, int bits, int value);
    int (*inflate_set_dictionary)(ZlibStream*, const std::uint8_t*, unsigned size);
    int (*inflate_get_dictionary)(ZlibStream*, std::uint8_t*, unsigned* size);
    unsigned long (*crc32)(unsigned long, const std::uint8_t*, unsigned size);
};

struct Bzip2Stream {  // bz_stream
    const char* next_in;
    unsigned avail_in;
    unsigned total_in[2];
    char* next_out;
    unsigned avail_out;
    unsigned total_out[2];
    void* state;
    void* (*allocate)(void*, int, int);
    void (*free)(void*, void*);
    void* opaque;
};

struct Bzip2 {
    static constexpr int kOk = 0;
    static constexpr int kStreamEnd = 4;
    static constexpr int kMemoryError = -3;

    int (*begin)(Bzip2Stream*, int verbosity, int small);
    int (*decode)(Bzip2Stream*);
    int (*end)(Bzip2Stream*);
};

struct ZstdInput {  // ZSTD_inBuffer
    const void* bytes;
    std::size_t size;
    std::size_t used;
};

struct ZstdOutput {  // ZSTD_outBuffer
    void* bytes;
    std::size_t size;
    std::size_t used;
};

struct Zstd {
    static constexpr int kLevel = 100;       // ZSTD_c_compressionLevel
    static constexpr int kChecksum = 201;    // ZSTD_c_checksumFlag
    static constexpr int kResetSession = 1;  // ZSTD_reset_session_only
    static constexpr int kContinue = 0;      // ZSTD_e_continue
    static constexpr int kEnd = 2;           // ZSTD_e_end

    void* (*make_decoder)();
    std::size_t (*free_decoder)(void*);
    std::size_t (*reset_decoder)(void*, int what);
    std::size_t (*decode)(void*, ZstdOutput*, ZstdInput*);
    std::size_t (*decoded_size)();  // bytes that a decoder gives at most at once
    void* (*make_encoder)();
    std::size_t (*free_encoder)(void*);
    std::size_t (*set_parameter)(void*, int parameter, int value);
    std::size_t (*encode)(void*, ZstdOutput*, ZstdInput*, int how);
    std::size_t (*encoded_size)();
    unsigned (*is_error)(std::size_t);
    const char* (*error_name)(std::size_t);
};

// Null if the machine does not have the library.
[[nodiscard]] const Zlib* zlib();
[[nodiscard]] const Zstd* zstd();
[[nodiscard]] const Bzip2* bzip2();

inline constexpr char kNoZlib[] = "gzip needs the library libz.so.1, which is not on this machine";
inline constexpr char kNoZstd[] = "zstd needs the library libzstd.so.1, which is not on this machine";
inline constexpr char kNoBzip2[] = "bzip2 needs the library libbz2.so.1, which is not on this machine";

}  // namespace sparsepool::packed
