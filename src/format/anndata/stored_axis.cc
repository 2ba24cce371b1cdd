#include "format/anndata/stored_axis.h"

#include <penstock/error.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/concat.h"
#include "base/threads/parallel.h"
#include "format/anndata/elements.h"
#include "format/anndata/stored_column.h"
#include "format/numbered_table.h"

namespace penstock::format::anndata {
namespace {

class StoredAxis final : public NumberedTable {
 public:
  StoredAxis(chunked::GroupPtr group, const std::string& names, unsigned threads)
      : group_(std::move(group)), threads_(threads) {
    expect_known_encoding(group_->attributes(), group_->path());
    const std::string index = text_attribute(group_->attributes(), "_index");
    if (index.empty()) throw CorruptData("a table has no attribute _index, in " + group_->path());
    std::vector<std::string> order = column_order(*group_);
    std::erase_if(order,
                  [&](const std::string& name) { return name == kRowNumbers || name == index; });
    const bool taken = std::find(order.begin(), order.end(), names) != order.end();
    const std::string shown = taken ? index : names;
    order.insert(order.begin(), index);
    open_columns(order, shown);
  }

  const std::string& uri() const override { return group_->path(); }
  std::string content() const override;

 private:
  void open_columns(const std::vector<std::string>& order, const std::string& shown);
  Column stored_column(const std::string& name, uint64_t begin, uint64_t end) const override {
    return columns_.find(name)->second->read(begin, end, threads_);
  }
  void will_read(const std::vector<std::string>& names, uint64_t begin,
                 uint64_t end) const override {
    std::vector<chunked::ArrayRange> ranges;
    for (const std::string& name : names) {
      columns_.find(name)->second->add_ranges(begin, end, ranges);
    }
    if (ranges.empty()) return;
    group_->will_read();
    chunked::announce_ranges(ranges);
  }

  chunked::GroupPtr group_;
  unsigned threads_;
  std::map<std::string, std::unique_ptr<StoredColumn>, std::less<>> columns_;
};

void StoredAxis::open_columns(const std::vector<std::string>& order, const std::string& shown) {
  std::vector<std::unique_ptr<StoredColumn>> opened(order.size());
  std::vector<std::string> reasons(order.size());
  parallel_for(order.size(), threads_, [&](size_t i) {
    try {
      opened[i] = std::make_unique<StoredColumn>(*group_, order[i], i == 0 ? shown : order[i]);
    } catch (const Unsupported& error) {
      if (i == 0) throw;
      reasons[i] = error.what();
    }
  });
  const uint64_t row_count = opened[0]->row_count();
  std::vector<ColumnInfo> infos;
  UnreadColumns unread;
  for (size_t i = 0; i < order.size(); ++i) {
    if (!opened[i]) {
      unread.emplace(order[i], reasons[i]);
      continue;
    }
    if (opened[i]->row_count() != row_count) {
      throw CorruptData(concat("columns must be of one length, found ", opened[i]->row_count(),
                               " and ", row_count, ", in ", group_->path(), "/", order[i]));
    }
    infos.push_back(opened[i]->info());
    columns_.emplace(opened[i]->info().name, std::move(opened[i]));
  }
  set_columns(std::move(infos), row_count, std::move(unread));
}

std::string StoredAxis::content() const {
  std::string text = "table " + uri() + "\n" + group_->attributes().dump() + "\n";
  for (const auto& [name, stored] : columns_) {
    const std::string own = stored->version();
    if (own.empty()) return {};
    text += std::to_string(name.size()) + " " + name + "\n" + own;
  }
  return text;
}

}  // namespace

StoredTablePtr open_axis(chunked::GroupPtr group, const std::string& names, unsigned threads) {
  return std::make_shared<const StoredAxis>(std::move(group), names, threads);
}

}  // namespace penstock::format::anndata
