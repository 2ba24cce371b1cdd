#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace penstock {

/// The parts as one text, numbers in decimal: for messages.
///
///   throw CorruptData(concat("a list of ", count, " tile offsets in ", bytes, " bytes"));
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  [[maybe_unused]] const auto append = [&text](const auto& part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_same_v<Part, char>) {
      text += part;
    } else if constexpr (std::is_arithmetic_v<Part>) {
      text += std::to_string(part);
    } else {
      text += std::string_view(part);
    }
  };
  (append(parts), ...);
  return text;
}

}  // namespace penstock
