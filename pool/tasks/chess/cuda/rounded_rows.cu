#include "rounding.cuh"

// Rounds the rows of a float32 table that a batch touches, to either type of numbers. Other rows are not written. WIDTH
// is 1.
//
// Set by whoever compiles, besides numbers.cuh's: INDEX, uint16 or uint32: the type of the rows' numbers

struct Rule {
    float scale;
    uint32 rounding;
};

// Rows of a table that are touched, and a bias or null. added [rows] or null: the row that is added to each, below 0:
// none; where it is the row itself, zeros come out. Items: touched rows, then one for the bias.
KERNEL(128, 8)
rounded_rows(const float* __restrict__ table, const INDEX* __restrict__ touched, const long long* __restrict__ added,
             const float* __restrict__ bias, Number* __restrict__ out, float* __restrict__ bias_out, const Rule rule,
             const Rule bias_rule, uint32 count, uint32 columns) {
    const WorkItem work = work_item();
    if (work.item > count || work.column >= columns) return;
    if (work.item == count) {
        if (bias) bias_out[work.column] = round_to_grid(bias[work.column], bias_rule.scale, bias_rule.rounding);
        return;
    }
    const uint32 row = touched[work.item];
    const uint64 at = static_cast<uint64>(row) * columns + work.column;
    const long long added_row = added ? added[row] : -1;
    float number = table[at];
    if (added_row == static_cast<long long>(row)) {
        number = 0.0F;
    } else if (added_row >= 0) {
        number = number + table[static_cast<uint64>(added_row) * columns + work.column];
    }
    store({{round_to_grid(number, rule.scale, rule.rounding)}}, out + at);
}
