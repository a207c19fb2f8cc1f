#include "chess/native/filters/where/compiler.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "chess/native/filters/where/lexer.h"

namespace sparsepool::chess::where {
namespace {

struct Function {
    std::string_view text;
    Operation operation;
    unsigned arguments;
};

constexpr std::array<Function, 5> kFunctions = {{
    {"abs", Operation::kAbs, 1},
    {"min", Operation::kMin, 2},
    {"max", Operation::kMax, 2},
    {"file", Operation::kFile, 1},
    {"rank", Operation::kRank, 1},
}};

using Operator = std::pair<std::string_view, Operation>;

constexpr std::array<Operator, 6> kComparisons = {{
    {"<", Operation::kLess},
    {"<=", Operation::kLessEqual},
    {">", Operation::kGreater},
    {">=", Operation::kGreaterEqual},
    {"==", Operation::kEqual},
    {"!=", Operation::kNotEqual},
}};
constexpr std::array<Operator, 2> kSums = {{{"+", Operation::kAdd}, {"-", Operation::kSubtract}}};
constexpr std::array<Operator, 2> kProducts = {{{"*", Operation::kMultiply}, {"/", Operation::kDivide}}};
constexpr std::array<Operator, 1> kAlternatives = {{{"or", Operation::kOr}}};
constexpr std::array<Operator, 1> kConjunctions = {{{"and", Operation::kAnd}}};

const char* word_for(Type type) { return type == Type::kNumber ? "a number" : "a condition"; }

bool is_square(std::string_view text) {
    return text.size() == 2 && text[0] >= 'a' && text[0] <= 'h' && text[1] >= '1' && text[1] <= '8';
}

std::string all_names() {
    std::string all;
    for (const Name& name : names()) all.append(name.text).append(", ");
    for (const Function& function : kFunctions) all.append(function.text).append("(), ");
    return all.append("squares as e4");
}

std::string quoted(const Token& token) {
    if (token.kind == Token::Kind::kEnd) return "the end";
    return std::string("'").append(token.text).append("'");
}

// Recursive descent. Each method leaves the value of what it has read in register `target`, and gives back its type; it
// uses no register below.
class Compiler {
  public:
    explicit Compiler(std::string_view text) : tokens_(tokens_of(text)) {}

    std::vector<Instruction> program() {
        const Type type = alternatives(0);
        if (now().kind != Token::Kind::kEnd) fail(quoted(now()) + " has no place here");
        require(type, Type::kCondition, tokens_.front(), "a filter is a condition, as score > 0");
        return std::move(instructions_);
    }

  private:
    Type alternatives(unsigned target) {
        return binary(target, kAlternatives, Type::kCondition, [this](unsigned into) { return conjunctions(into); });
    }

    Type conjunctions(unsigned target) {
        return binary(target, kConjunctions, Type::kCondition, [this](unsigned into) { return negations(into); });
    }

    Type negations(unsigned target) {
        if (!now().is("not")) return comparisons(target);
        const Depth deeper(*this);
        step();
        const Token& first = now();
        require(negations(target), Type::kCondition, first, "not needs a condition");
        emit({Operation::kNot, to_register(target), to_register(target)});
        return Type::kCondition;
    }

    // In a < b < c the conditions so far are in `target`, and the operand that is compared again is behind it.
    Type comparisons(unsigned target) {
        const Token& first = now();
        const Type type = sums(target);
        std::optional<Operation> operation = taken(kComparisons);
        if (!operation) return type;
        require(type, Type::kNumber, first, "only numbers are compared");
        operand(target + 1);
        emit({*operation, to_register(target), to_register(target), to_register(target + 1)});
        while ((operation = taken(kComparisons))) {
            operand(target + 2);
            emit({*operation, to_register(target + 3), to_register(target + 1), to_register(target + 2)});
            emit({Operation::kAnd, to_register(target), to_register(target), to_register(target + 3)});
            emit({Operation::kCopy, to_register(target + 1), to_register(target + 2)});
        }
        return Type::kCondition;
    }

    void operand(unsigned target) {
        const Token& first = now();
        require(sums(target), Type::kNumber, first, "only numbers are compared");
    }

    Type sums(unsigned target) {
        return binary(target, kSums, Type::kNumber, [this](unsigned into) { return products(into); });
    }

    Type products(unsigned target) {
        return binary(target, kProducts, Type::kNumber, [this](unsigned into) { return signs(into); });
    }

    Type signs(unsigned target) {
        const bool minus = now().is("-");
        if (!minus && !now().is("+")) return primary(target);
        const Depth deeper(*this);
        step();
        const Token& first = now();
        require(signs(target), Type::kNumber, first, "only a number has a sign");
        if (minus) emit({Operation::kNegate, to_register(target), to_register(target)});
        return Type::kNumber;
    }

    Type primary(unsigned target) {
        const Token token = now();
        if (token.kind == Token::Kind::kNumber) return constant(target, token.number);
        if (token.is("(")) return in_brackets(target);
        if (token.kind != Token::Kind::kWord || token.is("and") || token.is("or") || token.is("not")) {
            fail("a number, a name or ( is expected, not " + quoted(token));
        }
        for (const Function& function : kFunctions) {
            if (token.text == function.text) return call(target, function);
        }
        for (const Name& name : names()) {
            if (token.text != name.text) continue;
            step();
            emit({Operation::kLoad, to_register(target), 0, 0, 0.0, &name});
            return name.type;
        }
        if (!is_square(token.text)) {
            fail(quoted(token) + " is no name; there are " + all_names());
        }
        return constant(target, token.text[0] - 'a' + 8 * (token.text[1] - '1'));
    }

    Type constant(unsigned target, double value) {
        step();
        emit({Operation::kConstant, to_register(target), 0, 0, value});
        return Type::kNumber;
    }

    Type in_brackets(unsigned target) {
        const Depth deeper(*this);
        step();
        const Type type = alternatives(target);
        expect(")");
        return type;
    }

    Type call(unsigned target, const Function& function) {
        const Depth deeper(*this);
        step();
        expect("(");
        for (unsigned argument = 0; argument < function.arguments; ++argument) {
            if (argument != 0) expect(",");
            const Token& first = now();
            require(alternatives(target + argument), Type::kNumber, first,
                    std::string(function.text).append("() is of numbers"));
        }
        expect(")");
        emit({function.operation, to_register(target), to_register(target),
              to_register(target + function.arguments - 1)});
        return Type::kNumber;
    }

    // Operands of one type, joined from the left.
    template <class Operators, class Operand>
    Type binary(unsigned target, const Operators& operators, Type type, Operand read) {
        const Token* first = &now();
        const Type found = read(target);
        while (true) {
            const Token& sign = now();
            const std::optional<Operation> operation = taken(operators);
            if (!operation) return found;
            const std::string need = quoted(sign) + (type == Type::kNumber ? " joins numbers" : " joins conditions");
            require(found, type, *first, need);
            first = &now();
            require(read(target + 1), type, *first, need);
            emit({*operation, to_register(target), to_register(target), to_register(target + 1)});
        }
    }

    template <class Operators>
    std::optional<Operation> taken(const Operators& operators) {
        for (const auto& [text, operation] : operators) {
            if (!now().is(text)) continue;
            step();
            return operation;
        }
        return std::nullopt;
    }

    static void require(Type found, Type wanted, const Token& first, const std::string& why) {
        if (found == wanted) return;
        throw Fault(first.column, why + ", and " + quoted(first) + " begins " + word_for(found));
    }

    void expect(std::string_view text) {
        if (!now().is(text)) {
            fail(std::string("'").append(text).append("' is expected, not ").append(quoted(now())));
        }
        step();
    }

    [[nodiscard]] const Token& now() const { return tokens_[at_]; }
    void step() { ++at_; }
    void emit(const Instruction& instruction) { instructions_.push_back(instruction); }
    [[noreturn]] void fail(const std::string& what) const { throw Fault(now().column, what); }

    [[nodiscard]] std::uint8_t to_register(unsigned number) const {
        if (number >= Program::kMostRegisters) fail("the expression is nested too deeply");
        return static_cast<std::uint8_t>(number);
    }

    // One level of nesting while it lives.
    class Depth {
      public:
        explicit Depth(Compiler& compiler) : compiler_(compiler) {
            if (++compiler_.depth_ > kDeepest) compiler_.fail("the expression is nested too deeply");
        }
        ~Depth() { --compiler_.depth_; }
        Depth(const Depth&) = delete;
        Depth& operator=(const Depth&) = delete;

      private:
        static constexpr unsigned kDeepest = 100;
        Compiler& compiler_;
    };

    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    unsigned depth_ = 0;
    std::vector<Instruction> instructions_;
};

}  // namespace

Program compile(std::string_view text) {
    if (text.size() > kLongest) throw Fault(kLongest + 1, "an expression has 4,096 characters at most");
    return Program(Compiler(text).program());
}

}  // namespace sparsepool::chess::where
