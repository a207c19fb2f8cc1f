#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "chess/native/filters/where/names.h"
#include "chess/native/record.h"

namespace sparsepool::chess::where {

enum class Operation : std::uint8_t {
    kConstant,  // target = constant
    kLoad,      // target = the name's value of each record
    kAgain,     // target stays: it holds the second operand of the operation before
    kNegate,    // target = -target, and so on
    kAbs,
    kFile,  // of a square, 1 to 8
    kRank,
    kNot,
    kAdd,  // target = target + the register behind it, and so on
    kSubtract,
    kMultiply,
    kDivide,
    kMin,
    kMax,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kEqual,
    kNotEqual,
    kAnd,
    kOr,
};

struct Instruction {
    Operation operation = Operation::kConstant;
    std::uint8_t target = 0;  // register
    double constant = 0.0;
    const Name* name = nullptr;
};

// An expression as instructions of a register machine. A register holds the values of a block of records, so that
// what an instruction is costs little for each of them. Numbers are doubles, and only operations are used whose result
// IEEE 754 says, so that a filter leaves the same out on every machine (I1). Immutable.
class Program {
  public:
    using Word = std::variant<double, std::string>;  // a constant; a name or an operation

    // `postfix`: each operation behind its operands; `again` is the second operand of the operation right before it.
    // Throws std::invalid_argument.
    explicit Program(const std::vector<Word>& postfix);

    // passes[i]: whether the condition holds of records[i], 1 or 0. `memory` is to be used again.
    void run(std::span<const Record> records, std::vector<double>& memory, std::uint8_t* passes) const;

    [[nodiscard]] std::span<const Instruction> instructions() const { return instructions_; }

  private:
    void run_block(std::span<const Record> records, double* registers) const;

    std::vector<Instruction> instructions_;
    std::size_t registers_ = 1;  // of which the first has the result
};

}  // namespace sparsepool::chess::where
