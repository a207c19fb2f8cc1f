#include "features/chess768.h"

namespace sparsepool::features {

const FeatureSetOf<Chess768> kChess768;

}  // namespace sparsepool::features
