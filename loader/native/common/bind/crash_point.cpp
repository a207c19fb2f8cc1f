#include "common/crash_point.h"

#include <map>

#include <nanobind/stl/string.h>

#include "common/bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace sparsepool {
namespace {

void arm(const std::string& name, std::uint64_t at, const std::string& kind) {
    using enum Crash;
    static const std::map<std::string, Crash> crashes{
        {"kill", kKill}, {"segv", kSegv}, {"stop", kStop}, {"exit", kExit}, {"note", kNote}};
    const auto crash = crashes.find(kind);
    if (crash == crashes.end()) throw nb::value_error(("no such crash: " + kind).c_str());
    arm_crash_point(name, at, crash->second);
}

}  // namespace

void bind_crash_point(nb::module_& module) {
    module.def(
        "arm_crash_point", &arm, "name"_a, "at"_a, "how"_a,
        R"(The `at`-th time (from 1): kill, segv, stop or exit; note: every time, a line on stderr. Raises ValueError.)");
    module.def(
        "crash_point", [](const std::string& name) { crash_point(name.c_str()); }, "name"_a,
        R"(Does what is armed for this place; nothing, if nothing is.)");
}

}  // namespace sparsepool
