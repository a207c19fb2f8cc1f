#include "list_sums.cuh"

// The sparse layer: out[l] = start + the sum of the rows that list l names. Forward, a list is a bag and the table the
// weights; backward, a list is a touched feature and the table the gradient of the bags' sums.
//
// Lists lie one behind the other in `numbers`, list l from offsets[l] to below offsets[l + 1]. Blocks are
// (columns / WIDTH, lists). Columns beyond those of a block belong to blocks further along y, which run later: so the
// part of a large table that is in use at a time is smaller.

KERNEL(128, 8)
sum_lists(const Row* __restrict__ table, const INDEX* __restrict__ numbers, const uint32* __restrict__ offsets,
          const float* __restrict__ values, const Number* __restrict__ start, Number* __restrict__ out, uint32 lists,
          uint32 columns) {
    const Place here = place();
    if (here.item >= lists || here.column >= columns) return;
    const Lists all{table, numbers, values, columns};
    Floats total = start ? load(start + here.column) : zeros();
    all.add_up(total, offsets[here.item], offsets[here.item + 1], here.column);
    store(total, out + static_cast<uint64>(here.item) * columns + here.column);
}

// Lists of very different lengths: those longer than kPiece are cut into pieces of kPiece, from their beginning on.
// `sum_pieces` writes sums of lists that are not cut to `out`, and of pieces to `partial`; `join_pieces` adds the
// pieces of a list up, in their order.
//
// Nobody needs a list of the pieces. `numbers` is cut into windows of kPiece. At most one of the long lists begins in a
// window, and at most one later piece does: a first piece lies at 2 * window in `partial`, a later one at
// 2 * window + 1, where the window is the one that the piece begins in.

constexpr uint32 kPiece = 256;

// The list that holds a place of `numbers`; `lists` if none does.
static __device__ __forceinline__ uint32 list_at(const uint32* offsets, uint32 lists, uint32 place) {
    uint32 low = 0;
    uint32 high = lists;
    if (place >= offsets[lists]) return lists;
    while (high - low > 1) {
        const uint32 middle = low + (high - low) / 2;
        if (offsets[middle] <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

struct Piece {
    uint32 begin, end;  // equal: there is none
};

static __device__ __forceinline__ Piece first_piece(const uint32* offsets, uint32 lists, uint32 window) {
    const uint32 list = list_at(offsets, lists, (window + 1) * kPiece - 1);  // it reaches beyond the window
    if (list == lists || offsets[list] < window * kPiece || offsets[list + 1] - offsets[list] <= kPiece) return {0, 0};
    return {offsets[list], offsets[list] + kPiece};
}

static __device__ __forceinline__ Piece later_piece(const uint32* offsets, uint32 lists, uint32 window) {
    const uint32 list = list_at(offsets, lists, window * kPiece);  // it began before the window
    if (list == lists) return {0, 0};
    const uint32 begin = offsets[list];
    const uint32 end = offsets[list + 1];
    if (begin >= window * kPiece || end - begin <= kPiece) return {0, 0};
    const uint32 from = begin + (window * kPiece - begin + kPiece - 1) / kPiece * kPiece;
    if (from >= end) return {0, 0};
    return {from, end - from < kPiece ? end : from + kPiece};
}

// Items along x: the lists, then two for each window.
KERNEL(128, 8)
sum_pieces(const Row* __restrict__ table, const INDEX* __restrict__ numbers, const uint32* __restrict__ offsets,
           const float* __restrict__ values, Number* __restrict__ out, float* __restrict__ partial, uint32 lists,
           uint32 windows, uint32 columns) {
    const Place here = place();
    if (here.item >= lists + 2 * windows || here.column >= columns) return;
    const bool is_list = here.item < lists;
    const uint32 slot = here.item - lists;
    Piece piece;
    if (is_list) {
        piece = {offsets[here.item], offsets[here.item + 1]};
        if (piece.end - piece.begin > kPiece) return;
    } else {
        piece = slot % 2 ? later_piece(offsets, lists, slot / 2) : first_piece(offsets, lists, slot / 2);
        if (piece.begin == piece.end) return;
    }
    Floats total = zeros();
    Lists{table, numbers, values, columns}.add_up(total, piece.begin, piece.end, here.column);
    if (is_list) {
        store(total, out + static_cast<uint64>(here.item) * columns + here.column);
    } else {
        store_floats(total, partial + static_cast<uint64>(slot) * columns + here.column);
    }
}

// Items along x: windows.
KERNEL(128, 4)
join_pieces(const uint32* __restrict__ offsets, const float* __restrict__ partial, Number* __restrict__ out,
            uint32 lists, uint32 windows, uint32 columns) {
    const Place here = place();
    if (here.item >= windows || here.column >= columns) return;
    const Piece first = first_piece(offsets, lists, here.item);
    if (first.begin == first.end) return;
    const uint32 list = list_at(offsets, lists, first.begin);
    Floats total = load_floats(partial + static_cast<uint64>(2 * here.item) * columns + here.column);
    const uint32 pieces = (offsets[list + 1] - first.begin + kPiece - 1) / kPiece;
    const float* from = partial + (static_cast<uint64>(2 * here.item) + 1) * columns + here.column;
    const uint64 step = static_cast<uint64>(2) * columns;  // piece i begins i windows further on
    uint32 i = 1;
    for (; i + kInFlight <= pieces; i += kInFlight) {
        Floats sums[kInFlight];
        UNROLL
        for (uint32 k = 0; k < kInFlight; ++k) sums[k] = load_floats(from + (i + k) * step);
        UNROLL
        for (uint32 k = 0; k < kInFlight; ++k) add(total, sums[k]);
    }
    for (; i < pieces; ++i) add(total, load_floats(from + i * step));
    store(total, out + static_cast<uint64>(list) * columns + here.column);
}
