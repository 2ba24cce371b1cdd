#include "codec/filters/shuffled_parts.h"

#include <penstock/error.h>

#include "base/concat.h"

namespace penstock::codec {

void transform_parts(FilterStep& step, PartTransform transform) {
  const uint64_t parts = step.metadata.read<uint32_t>("number of parts");
  step.metadata.expect_items(parts, sizeof(uint32_t), "parts");
  const auto out = step.make_data(step.data.size());
  ByteReader in(step.data);
  for (uint64_t part = 0; part < parts; ++part) {
    const auto bytes = step.metadata.read<uint32_t>("part length");
    const auto offset = in.offset();
    transform(step, in.take(bytes, "part"), out.subspan(offset, bytes));
  }
  if (!in.empty()) {
    throw CorruptData(concat(name_of(step.config.type), ": parts end ", in.remaining(),
                             " bytes before the data"));
  }
  step.pass_metadata();
}

}  // namespace penstock::codec
