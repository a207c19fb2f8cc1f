#pragma once

#include "arrays/numbers.h"

// For kernel files: lists of a type known at compile time.
namespace sparsepool {
namespace {

template <class Number>
const Number* typed(const Numbers& numbers) {
    return static_cast<const Number*>(numbers.data);
}

}  // namespace
}  // namespace sparsepool
