#include "io/s3/xml_answer.h"

#include <pugixml.hpp>

#include "io/http/http_message.h"

namespace penstock::io {
namespace {

std::string_view local_name(const pugi::xml_node& node) {
  const std::string_view name = node.name();
  const size_t colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

std::string text_of(const pugi::xml_node& parent, std::string_view name) {
  for (const pugi::xml_node& child : parent.children()) {
    if (local_name(child) == name) return child.text().get();
  }
  return {};
}

pugi::xml_node root_of(const pugi::xml_document& document, std::string_view name) {
  const pugi::xml_node root = document.document_element();
  return local_name(root) == name ? root : pugi::xml_node();
}

}  // namespace

ListPage parse_list_page(std::string_view xml) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  const pugi::xml_node root = parsed ? root_of(document, "ListBucketResult") : pugi::xml_node();
  if (!root) throw NoListing("the answer is no listing of a bucket");
  ListPage page;
  for (const pugi::xml_node& child : root.children()) {
    const std::string_view name = local_name(child);
    if (name == "Contents") {
      const std::string digits = text_of(child, "Size");
      const auto size = parse_decimal(digits);
      std::string key = text_of(child, "Key");
      if (digits.empty() || key.empty()) {
        throw NoListing("the listing has an object without key or size");
      }
      if (!size || *size > INT64_MAX) {
        throw CorruptData("no object has the size " + digits + " that the listing gives to " + key);
      }
      page.objects.push_back({std::move(key), *size, text_of(child, "ETag")});
    } else if (name == "CommonPrefixes") {
      page.prefixes.push_back(text_of(child, "Prefix"));
    } else if (name == "IsTruncated") {
      page.truncated = std::string_view(child.text().get()) == "true";
    } else if (name == "NextContinuationToken") {
      page.continuation_token = child.text().get();
    }
  }
  if (page.truncated && page.continuation_token.empty()) {
    throw NoListing("the listing is not complete, but does not say where the next part starts");
  }
  return page;
}

S3Error parse_s3_error(std::string_view xml) {
  pugi::xml_document document;
  S3Error error;
  if (!document.load_buffer(xml.data(), xml.size())) return error;
  const pugi::xml_node root = root_of(document, "Error");
  error.code = text_of(root, "Code");
  error.message = text_of(root, "Message");
  error.region = text_of(root, "Region");
  error.endpoint = text_of(root, "Endpoint");
  return error;
}

}  // namespace penstock::io
