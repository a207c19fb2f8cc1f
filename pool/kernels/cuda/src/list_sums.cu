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
    const WorkItem work = work_item();
    if (work.item >= lists || work.column >= columns) return;
    const Lists all{table, numbers, values, columns};
    Floats total = start ? load(start + work.column) : zeros();
    all.add_up(total, offsets[work.item], offsets[work.item + 1], work.column);
    store(total, out + static_cast<uint64>(work.item) * columns + work.column);
}

// Lists of very different lengths: a list longer than kPiece is cut into pieces of kPiece, from its beginning on.
// `sum_pieces` writes the sums of lists that are not cut to `out`, and those of pieces to `partial`. `join_pieces` adds
// up the pieces of each list, in their order.
//
// No list of the pieces is needed. `numbers` is cut into windows of kPiece. In a window at most one long list begins,
// and at most one later piece of a list. In `partial` the sum of a first piece is at 2 * window, that of a later piece
// at 2 * window + 1, where the window is that in which the piece begins.

constexpr uint32 kPiece = 256;

// The list that `index` of `numbers` belongs to, by bisection; `lists` if it belongs to none.
static __device__ __forceinline__ uint32 list_at(const uint32* offsets, uint32 lists, uint32 index) {
    uint32 low = 0;
    uint32 high = lists;
    if (index >= offsets[lists]) return lists;
    while (high - low > 1) {
        const uint32 middle = low + (high - low) / 2;
        if (offsets[middle] <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// A piece of `numbers`. Empty if a window has none.
struct Piece {
    uint32 begin, end;
};

// The first piece of the long list that begins in a window.
static __device__ __forceinline__ Piece first_piece(const uint32* offsets, uint32 lists, uint32 window) {
    // A long list that begins in the window reaches beyond its end.
    const uint32 list = list_at(offsets, lists, (window + 1) * kPiece - 1);
    if (list == lists || offsets[list] < window * kPiece || offsets[list + 1] - offsets[list] <= kPiece) return {0, 0};
    return {offsets[list], offsets[list] + kPiece};
}

// The piece of a long list, other than its first, that begins in a window.
static __device__ __forceinline__ Piece later_piece(const uint32* offsets, uint32 lists, uint32 window) {
    // A list with a later piece in the window began before it.
    const uint32 list = list_at(offsets, lists, window * kPiece);
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
    const WorkItem work = work_item();
    if (work.item >= lists + 2 * windows || work.column >= columns) return;
    const bool is_list = work.item < lists;
    const uint32 slot = work.item - lists;
    Piece piece;
    if (is_list) {
        piece = {offsets[work.item], offsets[work.item + 1]};
        if (piece.end - piece.begin > kPiece) return;
    } else {
        piece = slot % 2 ? later_piece(offsets, lists, slot / 2) : first_piece(offsets, lists, slot / 2);
        if (piece.begin == piece.end) return;
    }
    Floats total = zeros();
    Lists{table, numbers, values, columns}.add_up(total, piece.begin, piece.end, work.column);
    if (is_list) {
        store(total, out + static_cast<uint64>(work.item) * columns + work.column);
    } else {
        store_floats(total, partial + static_cast<uint64>(slot) * columns + work.column);
    }
}

// Items along x: windows.
KERNEL(128, 4)
join_pieces(const uint32* __restrict__ offsets, const float* __restrict__ partial, Number* __restrict__ out,
            uint32 lists, uint32 windows, uint32 columns) {
    const WorkItem work = work_item();
    if (work.item >= windows || work.column >= columns) return;
    const Piece first = first_piece(offsets, lists, work.item);
    if (first.begin == first.end) return;
    const uint32 list = list_at(offsets, lists, first.begin);
    Floats total = load_floats(partial + static_cast<uint64>(2 * work.item) * columns + work.column);
    const uint32 pieces = (offsets[list + 1] - first.begin + kPiece - 1) / kPiece;
    const float* from = partial + (static_cast<uint64>(2 * work.item) + 1) * columns + work.column;
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
    store(total, out + static_cast<uint64>(list) * columns + work.column);
}
