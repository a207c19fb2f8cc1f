#include "crash_point.h"

#include <map>

#include <nanobind/stl/string.h>

#include "bind/bind.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void arm(const std::string& name, std::uint64_t at, const std::string& how) {
    using enum sparsepool::Crash;
    static const std::map<std::string, sparsepool::Crash> kinds{
        {"kill", kKill}, {"segv", kSegv}, {"stop", kStop}, {"exit", kExit}, {"note", kNote}};
    const auto found = kinds.find(how);
    if (found == kinds.end()) throw nb::value_error(("no such crash: " + how).c_str());
    sparsepool::arm_crash_point(name, at, found->second);
}

}  // namespace

void bind_crash_point(nb::module_& module) {
    module.def("arm_crash_point", &arm, "name"_a, "at"_a, "how"_a);
    module.def("crash_point", [](const std::string& name) { sparsepool::crash_point(name.c_str()); }, "name"_a);
}
