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

// An expression as instructions of a register machine. A register holds the values of a block of records, so that the
// dispatch of an instruction costs little for each record. Numbers are doubles, and only operations are used whose
// results IEEE 754 defines, so that a filter keeps the same entries on every machine (I1). Immutable.
class Program {
  public:
    using Word = std::variant<double, std::string>;  // a constant; a name or an operation

    // `postfix`: each operation behind its operands; `again` is the second operand of the operation right before it.
    // Throws std::invalid_argument.
    explicit Program(const std::vector<Word>& postfix);

    // Sets passes[i] to whether the condition holds for records[i], 1 or 0. `memory` is for registers, to be used
    // again.
    void run(std::span<const Record> records, std::vector<double>& memory, std::uint8_t* passes) const;

    [[nodiscard]] std::span<const Instruction> instructions() const { return instructions_; }

  private:
    void run_block(std::span<const Record> records, double* registers) const;

    std::vector<Instruction> instructions_;
    std::size_t registers_ = 1;  // of which the first has the result
};

}  // namespace sparsepool::chess::where
