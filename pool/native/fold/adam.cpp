#include "fold/adam.h"

#include <cmath>

#include "arrays/check_lists.h"
#include "common/crash_point.h"
#include "common/parallel.h"
#include "common/simd.h"
#include "fold/row_walk.h"

namespace sparsepool {
namespace {

constexpr std::size_t kUnit = 4096;  // floats: a thread's share is whole pages

Adam constants(const AdamTensors& tensors, const AdamSettings& settings, std::size_t rows, std::size_t columns) {
    Adam out{};
    out.weights = tensors.weights;
    out.old = tensors.old;
    out.mean = tensors.mean;
    out.square = tensors.square;
    out.scale = static_cast<float>(settings.scale);
    out.mean_rate = static_cast<float>(1 - settings.beta1);
    out.square_keep = static_cast<float>(settings.beta2);
    out.square_rate = static_cast<float>(1 - settings.beta2);
    out.step_size = static_cast<float>(settings.learning_rate / (1 - std::pow(settings.beta1, settings.step)));
    out.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(settings.beta2, settings.step)));
    out.epsilon = static_cast<float>(settings.epsilon);
    out.decay = settings.decoupled ? 0.0F : static_cast<float>(settings.weight_decay);
    out.shrink = settings.decoupled ? static_cast<float>(1 - settings.learning_rate * settings.weight_decay) : 1.0F;
    out.stream = tensors.weights != tensors.old && worth_streaming(tensors.weights, rows, columns);
    return out;
}

}  // namespace

void adam(const AdamTensors& tensors, const AdamSettings& settings, std::size_t size, const Sources& sources,
          std::size_t threads) {
    check_threads(threads);
    const auto& level = simd::kernels<FoldKernels>();
    const Adam how = constants(tensors, settings, 1, size / 16 * 16);
    const Joins joins(sources);
    run_parts(threads, [&](std::size_t part) {
        level.adam(how, joins.of(sources), border(size, kUnit, part, threads), border(size, kUnit, part + 1, threads));
    });
}

void adam_rows(const AdamTensors& tensors, const AdamSettings& settings, std::size_t rows, std::size_t columns,
               const std::vector<RowSource>& sources, std::size_t first_row, bool touched_only, std::size_t threads) {
    check_threads(threads);
    const auto& level = simd::kernels<FoldKernels>();
    Adam how = constants(tensors, settings, rows, columns);
    how.touched_only = touched_only;
    RowWalk walk(sources, first_row, threads);
    const auto from_to = [&](std::size_t begin, std::size_t end) {
        run_parts(threads, [&](std::size_t part) {
            level.adam_rows(how, walk.of(part), columns, walk.block(part, begin, end, columns));
        });
    };
    const std::size_t middle = border(rows, RowWalk::kUnit, 1, 2);
    from_to(0, middle);
    crash_point("coordinator.mid_step");
    from_to(middle, rows);
}

}  // namespace sparsepool
