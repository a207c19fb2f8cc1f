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
constexpr std::size_t kMostRegisters = 128;

constexpr auto kOperations = std::to_array<std::pair<std::string_view, Operation>>({
    {"again", Operation::kAgain},     {"negate", Operation::kNegate}, {"abs", Operation::kAbs},
    {"file", Operation::kFile},       {"rank", Operation::kRank},     {"not", Operation::kNot},
    {"+", Operation::kAdd},           {"-", Operation::kSubtract},    {"*", Operation::kMultiply},
    {"/", Operation::kDivide},        {"min", Operation::kMin},       {"max", Operation::kMax},
    {"<", Operation::kLess},          {"<=", Operation::kLessEqual},  {">", Operation::kGreater},
    {">=", Operation::kGreaterEqual}, {"==", Operation::kEqual},      {"!=", Operation::kNotEqual},
    {"and", Operation::kAnd},         {"or", Operation::kOr},
});

// Without its register.
Instruction instruction_of(const Program::Word& word) {
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

std::size_t operands_of(Operation operation) {
    if (operation < Operation::kNegate) return 0;
    return operation < Operation::kAdd ? 1 : 2;
}

template <class Function>
void each(std::size_t count, double* target, Function function) {
    for (std::size_t i = 0; i < count; ++i) target[i] = function(target[i]);
}

double file_of(double square) { return square - 8.0 * std::floor(square / 8.0) + 1.0; }
double rank_of(double square) { return std::floor(square / 8.0) + 1.0; }

// Of one value.
void execute_on_one(Operation operation, std::size_t count, double* target) {
    switch (operation) {
        case Operation::kNegate: return each(count, target, [](double a) { return -a; });
        case Operation::kAbs: return each(count, target, [](double a) { return std::fabs(a); });
        case Operation::kFile: return each(count, target, file_of);
        case Operation::kRank: return each(count, target, rank_of);
        default: return each(count, target, [](double a) { return 1.0 - a; });
    }
}

void execute_on_two(Operation operation, std::size_t count, double* target, const double* right) {
    const auto with = [&](auto function) {
        for (std::size_t i = 0; i < count; ++i) target[i] = static_cast<double>(function(target[i], right[i]));
    };
    switch (operation) {
        case Operation::kAdd: return with([](double a, double b) { return a + b; });
        case Operation::kSubtract: return with([](double a, double b) { return a - b; });
        case Operation::kMultiply: return with([](double a, double b) { return a * b; });
        case Operation::kDivide: return with([](double a, double b) { return a / b; });
        case Operation::kMin:
        case Operation::kAnd: return with([](double a, double b) { return a < b ? a : b; });
        case Operation::kMax:
        case Operation::kOr: return with([](double a, double b) { return a > b ? a : b; });
        case Operation::kLess: return with([](double a, double b) { return a < b; });
        case Operation::kLessEqual: return with([](double a, double b) { return a <= b; });
        case Operation::kGreater: return with([](double a, double b) { return a > b; });
        case Operation::kGreaterEqual: return with([](double a, double b) { return a >= b; });
        case Operation::kEqual: return with([](double a, double b) { return a == b; });
        default: return with([](double a, double b) { return a != b; });
    }
}

}  // namespace

Program::Program(const std::vector<Word>& postfix) {
    std::size_t values = 0;  // each in the register of its number
    for (const Word& word : postfix) {
        Instruction instruction = instruction_of(word);
        const std::size_t operands = operands_of(instruction.operation);
        if (operands > values) throw std::invalid_argument("an operation has too few operands");
        if (instruction.operation == Operation::kAgain &&
            (instructions_.empty() || operands_of(instructions_.back().operation) < 2)) {
            throw std::invalid_argument("no operation of two operands is before again");
        }
        values -= operands;
        if (values == kMostRegisters) throw std::invalid_argument("the expression is nested too deeply");
        instruction.target = static_cast<std::uint8_t>(values++);
        registers_ = std::max(registers_, values);
        instructions_.push_back(instruction);
    }
    if (values != 1) throw std::invalid_argument("an expression has one value");
}

void Program::run(std::span<const Record> records, std::vector<double>& memory, std::uint8_t* passes) const {
    memory.resize(registers_ * kBlock);
    for (; !records.empty(); records = records.subspan(std::min(kBlock, records.size()))) {
        const std::size_t count = std::min(kBlock, records.size());
        run_block(records.first(count), memory.data());
        for (std::size_t i = 0; i < count; ++i) *passes++ = memory[i] != 0.0 ? 1 : 0;
    }
}

void Program::run_block(std::span<const Record> records, double* registers) const {
    for (const Instruction& instruction : instructions_) {
        double* target = registers + instruction.target * kBlock;
        if (instruction.operation == Operation::kConstant) {
            std::fill_n(target, records.size(), instruction.constant);
        } else if (instruction.operation == Operation::kLoad) {
            instruction.name->load(records, target);
        } else if (operands_of(instruction.operation) == 1) {
            execute_on_one(instruction.operation, records.size(), target);
        } else if (operands_of(instruction.operation) == 2) {
            execute_on_two(instruction.operation, records.size(), target, target + kBlock);
        }
    }
}

}  // namespace sparsepool::chess::where
