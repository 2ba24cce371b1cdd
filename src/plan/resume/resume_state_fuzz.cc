#include <penstock/error.h>
#include <penstock/resume.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

// Any text as a saved state: it is refused, or what it says is written and read alike.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using penstock::ResumeState;
  try {
    const auto state =
        ResumeState::from_json(std::string_view(reinterpret_cast<const char*>(data), size));
    if (ResumeState::from_json(state.to_json()) != state) __builtin_trap();
  } catch (const penstock::InvalidArgument&) {
  }
  return 0;
}
