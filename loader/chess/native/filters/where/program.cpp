#include "chess/native/filters/where/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace sparsepool::chess::where {
namespace {

constexpr std::size_t kBlock = 128;  // records at once: a register is 1 KiB
constexpr std::size_t kMaxRegisters = 128;

constexpr auto kOperations = std::to_array<std::pair<std::string_view, Operation>>({
    {"again", Operation::kAgain},     {"negate", Operation::kNegate}, {"abs", Operation::kAbs},
    {"file", Operation::kFile},       {"rank", Operation::kRank},     {"not", Operation::kNot},
    {"+", Operation::kAdd},           {"-", Operation::kSubtract},    {"*", Operation::kMultiply},
    {"/", Operation::kDivide},        {"min", Operation::kMin},       {"max", Operation::kMax},
    {"<", Operation::kLess},          {"<=", Operation::kLessEqual},  {">", Operation::kGreater},
    {">=", Operation::kGreaterEqual}, {"==", Operation::kEqual},      {"!=", Operation::kNotEqual},
    {"and", Operation::kAnd},         {"or", Operation::kOr},
});

// Returns the instruction of a constant, a name or an operation; its register is not set.
Instruction parse_instruction(const Program::Word& word) {
    if (const double* constant = std::get_if<double>(&word)) return {.constant = *constant};
    const auto& text = std::get<std::string>(word);
    for (const Name& name : names()) {
        if (name.text == text) return {.operation = Operation::kLoad, .name = &name};
    }
    for (const auto& [operator_text, operation] : kOperations) {
        if (operator_text == text) return {.operation = operation};
    }
    throw std::invalid_argument(text + " is neither a name nor an operation");
}

// Returns how many operands an operation has, by the order of the enum.
std::size_t count_operands(Operation operation) {
    if (operation < Operation::kNegate) return 0;
    if (operation < Operation::kAdd) return 1;
    return 2;
}

template <class Function>
void apply_to_each(std::size_t count, double* target, Function function) {
    for (std::size_t i = 0; i < count; ++i) target[i] = function(target[i]);
}

double file_of(double square) { return square - 8.0 * std::floor(square / 8.0) + 1.0; }
double rank_of(double square) { return std::floor(square / 8.0) + 1.0; }

// Executes an operation of one operand on a block of values: target = operation(target).
void execute_unary(Operation operation, std::size_t count, double* target) {
    switch (operation) {
        case Operation::kNegate: return apply_to_each(count, target, [](double a) { return -a; });
        case Operation::kAbs: return apply_to_each(count, target, [](double a) { return std::fabs(a); });
        case Operation::kFile: return apply_to_each(count, target, file_of);
        case Operation::kRank: return apply_to_each(count, target, rank_of);
        default: return apply_to_each(count, target, [](double a) { return 1.0 - a; });
    }
}

// Executes an operation of two operands: target = operation(target, right). A condition is 1 or 0.
void execute_binary(Operation operation, std::size_t count, double* target, const double* right) {
    const auto apply = [&](auto function) {
        for (std::size_t i = 0; i < count; ++i) target[i] = static_cast<double>(function(target[i], right[i]));
    };
    switch (operation) {
        case Operation::kAdd: return apply([](double a, double b) { return a + b; });
        case Operation::kSubtract: return apply([](double a, double b) { return a - b; });
        case Operation::kMultiply: return apply([](double a, double b) { return a * b; });
        case Operation::kDivide: return apply([](double a, double b) { return a / b; });
        case Operation::kMin:
        case Operation::kAnd: return apply([](double a, double b) { return a < b ? a : b; });
        case Operation::kMax:
        case Operation::kOr: return apply([](double a, double b) { return a > b ? a : b; });
        case Operation::kLess: return apply([](double a, double b) { return a < b; });
        case Operation::kLessEqual: return apply([](double a, double b) { return a <= b; });
        case Operation::kGreater: return apply([](double a, double b) { return a > b; });
        case Operation::kGreaterEqual: return apply([](double a, double b) { return a >= b; });
        case Operation::kEqual: return apply([](double a, double b) { return a == b; });
        default: return apply([](double a, double b) { return a != b; });
    }
}

}  // namespace

Program::Program(const std::vector<Word>& postfix) {
    std::size_t num_values = 0;  // on the stack; value i is in register i
    for (const Word& word : postfix) {
        Instruction instruction = parse_instruction(word);
        const std::size_t operands = count_operands(instruction.operation);
        if (operands > num_values) throw std::invalid_argument("an operation has too few operands");
        if (instruction.operation == Operation::kAgain &&
            (instructions_.empty() || count_operands(instructions_.back().operation) < 2)) {
            throw std::invalid_argument("no operation of two operands is before again");
        }
        num_values -= operands;
        if (num_values == kMaxRegisters) throw std::invalid_argument("the expression is nested too deeply");
        instruction.target = static_cast<std::uint8_t>(num_values++);
        registers_ = std::max(registers_, num_values);
        instructions_.push_back(instruction);
    }
    if (num_values != 1) throw std::invalid_argument("an expression has one value");
}

// Runs the program block by block. The result is in the first register.
void Program::run(std::span<const Record> records, std::vector<double>& memory, std::uint8_t* passes) const {
    memory.resize(registers_ * kBlock);
    for (std::size_t begin = 0; begin < records.size(); begin += kBlock) {
        const std::size_t count = std::min(kBlock, records.size() - begin);
        run_block(records.subspan(begin, count), memory.data());
        for (std::size_t i = 0; i < count; ++i) passes[begin + i] = memory[i] != 0.0 ? 1 : 0;
    }
}

// Executes each instruction for all records of a block.
void Program::run_block(std::span<const Record> records, double* registers) const {
    for (const Instruction& instruction : instructions_) {
        double* target = registers + instruction.target * kBlock;
        const std::size_t num_operands = count_operands(instruction.operation);
        if (instruction.operation == Operation::kConstant) {
            std::fill_n(target, records.size(), instruction.constant);
        } else if (instruction.operation == Operation::kLoad) {
            instruction.name->load(records, target);
        } else if (num_operands == 1) {
            execute_unary(instruction.operation, records.size(), target);
        } else if (num_operands == 2) {
            execute_binary(instruction.operation, records.size(), target, target + kBlock);
        }
    }
}

}  // namespace sparsepool::chess::where
