#include "format/zarr/metadata/json_text.h"

#include <penstock/error.h>

#include "base/concat.h"

namespace penstock::format::zarr {
namespace {

constexpr std::string_view kNumbers[] = {"NaN", "Infinity", "-Infinity"};

/// The bare word at the start of `text`; empty if there is none.
std::string_view bare_word(std::string_view text) {
  for (const std::string_view word : kNumbers) {
    if (text.starts_with(word)) return word;
  }
  return {};
}

/// Puts quotes around bare words and throws for nesting that is too deep.
std::string quoted_words(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  bool in_string = false;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\' && i + 1 < text.size()) {
        result += c;
        result += text[++i];
        continue;
      }
      in_string = c != '"';
    } else if (c == 'N' || c == 'I' || c == '-') {
      if (const std::string_view word = bare_word(text.substr(i)); !word.empty()) {
        result.append(1, '"').append(word).append(1, '"');
        i += word.size() - 1;
        continue;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) {
        throw CorruptData(concat("JSON nested deeper than ", kMostJsonDepth, " at offset ", i));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
    result += c;
  }
  return result;
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  if (text.size() > kMostJsonBytes) {
    throw CorruptData(
        concat("JSON of ", text.size(), " bytes, at most ", kMostJsonBytes, " are read"));
  }
  try {
    return nlohmann::json::parse(quoted_words(text));
  } catch (const nlohmann::json::exception& error) {
    throw CorruptData("not JSON: " + std::string(error.what()));
  }
}

std::optional<nlohmann::json> read_json(const io::Store& store, const std::string& path) {
  if (!store.exists(path)) return std::nullopt;
  return with_place(
      [&] {
        const uint64_t size = store.size_bytes(path);
        if (size > kMostJsonBytes) {
          throw CorruptData(
              concat("JSON of ", size, " bytes, at most ", kMostJsonBytes, " are read"));
        }
        Buffer bytes(size);
        store.read(path, 0, bytes.span());
        return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      },
      [&] { return path; });
}

}  // namespace penstock::format::zarr
