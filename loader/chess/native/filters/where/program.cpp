#include "chess/native/filters/where/program.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sparsepool::chess::where {
namespace {

constexpr std::size_t kBlock = 128;  // records at once: a register is 1 KiB

template <class Function>
void each(std::size_t count, const double* from, double* target, Function function) {
    for (std::size_t i = 0; i < count; ++i) target[i] = function(from[i]);
}

template <class Function>
void each(std::size_t count, const double* left, const double* right, double* target, Function function) {
    for (std::size_t i = 0; i < count; ++i) target[i] = function(left[i], right[i]);
}

double file_of(double square) { return square - 8.0 * std::floor(square / 8.0) + 1.0; }
double rank_of(double square) { return std::floor(square / 8.0) + 1.0; }

// Of one value.
void execute_on_one(Operation operation, std::size_t count, const double* from, double* target) {
    switch (operation) {
        case Operation::kCopy: return each(count, from, target, [](double a) { return a; });
        case Operation::kNegate: return each(count, from, target, [](double a) { return -a; });
        case Operation::kAbs: return each(count, from, target, [](double a) { return std::fabs(a); });
        case Operation::kFile: return each(count, from, target, file_of);
        case Operation::kRank: return each(count, from, target, rank_of);
        default: return each(count, from, target, [](double a) { return 1.0 - a; });
    }
}

void execute_on_two(Operation operation, std::size_t count, const double* left, const double* right, double* target) {
    const auto with = [&](auto function) {
        each(count, left, right, target, [&](double a, double b) { return static_cast<double>(function(a, b)); });
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

Program::Program(std::vector<Instruction> instructions) : instructions_(std::move(instructions)) {
    for (const Instruction& each : instructions_) registers_ = std::max<std::size_t>(registers_, each.target + 1U);
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
        const double* left = registers + instruction.left * kBlock;
        const double* right = registers + instruction.right * kBlock;
        if (instruction.operation == Operation::kConstant) {
            std::fill_n(target, records.size(), instruction.constant);
        } else if (instruction.operation == Operation::kLoad) {
            instruction.name->load(records, target);
        } else if (instruction.operation < Operation::kAdd) {
            execute_on_one(instruction.operation, records.size(), left, target);
        } else {
            execute_on_two(instruction.operation, records.size(), left, right, target);
        }
    }
}

}  // namespace sparsepool::chess::where
