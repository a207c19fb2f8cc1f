#include "rounding.cuh"

// The rows of a float32 table that a batch touches, rounded, as numbers of either type; the others are left as they
// are. WIDTH is 1.
//
// Set by whoever compiles, besides numbers.cuh's: INDEX, uint16 or uint32: the type of the rows' numbers

struct Rule {
    float scale;
    uint32 way;
};

// Rows of a table that are touched, and a bias or null. added [rows] or null: the row that is added to each, below 0:
// none; where it is the row itself, zeros come out. Items: touched rows, then one for the bias.
KERNEL(128, 8)
rounded_rows(const float* __restrict__ table, const INDEX* __restrict__ touched, const long long* __restrict__ added,
             const float* __restrict__ bias, Number* __restrict__ out, float* __restrict__ bias_out, const Rule rule,
             const Rule bias_rule, uint32 count, uint32 columns) {
    const Place here = place();
    if (here.item > count || here.column >= columns) return;
    if (here.item == count) {
        if (bias) bias_out[here.column] = on_grid(bias[here.column], bias_rule.scale, bias_rule.way);
        return;
    }
    const uint32 row = touched[here.item];
    const uint64 at = static_cast<uint64>(row) * columns + here.column;
    const long long more = added ? added[row] : -1;
    float number = table[at];
    if (more == static_cast<long long>(row)) {
        number = 0.0F;
    } else if (more >= 0) {
        number = number + table[static_cast<uint64>(more) * columns + here.column];
    }
    store({{on_grid(number, rule.scale, rule.way)}}, out + at);
}
