#include "chess/formats/marlinformat/native/format.h"

#include "chess/native/files/codec.h"
#include "chess/native/formats/storable.h"

namespace sparsepool::marlinformat {
namespace {

class Writer final : public chess::EntryWriter {
  public:
    [[nodiscard]] std::string add(const chess::Entry& entry) override {
        std::int16_t white_score = 0;
        if (const char* problem = chess::find_marlin_board_problem(entry.position)) return problem;
        if (const char* problem = chess::find_result_problem(entry)) return problem;
        if (const char* problem = chess::to_white_score(entry, white_score)) return problem;
        count_unscored(entry);
        count_changes(entry, chess::kMarlinKeeps, chess::kMarlinClock);
        output_.resize(output_.size() + kBytes);
        chess::write_marlin_record(entry, white_score, output_.data() + output_.size() - kBytes);
        ++entries_;
        return {};
    }
    void finish() override {}
};

}  // namespace

const chess::Codec& codec() {
    static const chess::RecordCodec<Kernels, Writer, kBytes> instance;
    return instance;
}

}  // namespace sparsepool::marlinformat
