#include "codec/filters/none.h"

namespace penstock::codec {

void decode_none(FilterStep& step) {
  step.pass_data();
  step.pass_metadata();
}

}  // namespace penstock::codec
