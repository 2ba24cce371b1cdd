#include "kernel/transform/row_transform.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <type_traits>

#include "kernel/transform/log1p.h"
#include "kernel/transform/sort_keys.h"

namespace penstock::kernel {
namespace {

using Kind = TransformStep::Kind;

template <typename T>
bool strictly_ascending(const T* indices, uint32_t count) noexcept {
  bool ascending = true;
  for (uint32_t i = 1; i < count; ++i) ascending &= indices[i] > indices[i - 1];
  return ascending;
}

/// Sums the values of duplicated columns, which are neighbours.
template <typename T>
uint32_t merge_duplicates(int32_t* indices, T* values, uint32_t nnz) {
  if (strictly_ascending(indices, nnz)) return nnz;
  uint32_t last = 0;
  for (uint32_t i = 1; i < nnz; ++i) {
    if (indices[i] != indices[last]) {
      ++last;
      indices[last] = indices[i];
      values[last] = values[i];
    } else if constexpr (std::is_floating_point_v<T>) {
      values[last] += values[i];
    } else if (__builtin_add_overflow(values[last], values[i], &values[last])) {
      throw InvalidArgument("the sum of a gene's several values does not fit the dtype");
    }
  }
  return last + 1;
}

/// Removes entries that became zero.
template <typename T>
uint32_t drop_zeros(int32_t* indices, T* values, uint32_t nnz) noexcept {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < nnz; ++i) {
    indices[kept] = indices[i];
    values[kept] = values[i];
    kept += values[i] != T{};
  }
  return kept;
}

/// Keeps the entries of columns that have a place, in the order of places.
template <typename T>
uint32_t move_columns(const std::vector<int32_t>& places, unsigned bits, int32_t* indices,
                      T* values, uint32_t nnz, RowScratch& scratch) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < nnz; ++i) {
    const int32_t place = places[static_cast<size_t>(indices[i])];
    indices[kept] = place;
    values[kept] = values[i];
    kept += place >= 0;
  }
  if (strictly_ascending(indices, kept)) return kept;
  scratch.keys.resize(kept);
  for (uint32_t i = 0; i < kept; ++i) {
    scratch.keys[i] = uint64_t{static_cast<uint32_t>(indices[i])} << 32 | i;
  }
  sort_keys(scratch.keys, bits, scratch.spare);
  scratch.values.resize(size_t{kept} * sizeof(T));
  T* const moved = reinterpret_cast<T*>(scratch.values.data());
  std::copy_n(values, kept, moved);
  for (uint32_t i = 0; i < kept; ++i) {
    indices[i] = static_cast<int32_t>(scratch.keys[i] >> 32);
    values[i] = moved[static_cast<uint32_t>(scratch.keys[i])];
  }
  return kept;
}

template <typename T>
void divide(T* values, uint32_t count, T divisor) noexcept {
  for (uint32_t i = 0; i < count; ++i) values[i] /= divisor;
}

// NaN stays NaN, as in numpy.clip.
template <typename T>
void clip(T* values, uint32_t count, T low, T high) noexcept {
  for (uint32_t i = 0; i < count; ++i) {
    const T value = values[i] < low ? low : values[i];
    values[i] = value > high ? high : value;
  }
}

template <typename T>
void log1p_with_base(T* values, uint32_t count, T divisor, VectorPath path) noexcept {
  log1p_values(values, count, path);
  if (divisor != T{1}) divide(values, count, divisor);
}

template <typename T>
void expm1_with_base(T* values, uint32_t count, T divisor) noexcept {
  for (uint32_t i = 0; i < count; ++i) values[i] = std::expm1(values[i] * divisor);
}

template <typename T>
void binarize(T* values, uint32_t count, T threshold) noexcept {
  for (uint32_t i = 0; i < count; ++i) values[i] = values[i] > threshold ? T{1} : T{0};
}

}  // namespace

template <typename T>
double total_of(const T* values, uint32_t count) noexcept {
  double sums[8] = {};
  uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (uint32_t k = 0; k < 8; ++k) sums[k] += static_cast<double>(values[i + k]);
  }
  for (uint32_t k = 0; i < count; ++i, ++k) sums[k] += static_cast<double>(values[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

template <typename T>
RowTransform<T>::RowTransform(const TransformPlan& plan, uint32_t columns, VectorPath path)
    : path_(path) {
  check_plan(plan, columns);
  columns_ = columns_after(plan, columns);
  first_dense_ = plan.steps.size();
  for (const TransformStep& step : plan.steps) {
    if (!std::is_floating_point_v<T> && step.kind != Kind::kColumns) {
      throw InvalidArgument(
          "transforms: steps that compute need dtype float32 or float64, not an integer type");
    }
    const bool centres = step.kind == Kind::kScale && step.mean != nullptr;
    if (centres) first_dense_ = std::min(first_dense_, steps_.size());
    steps_.push_back(convert(step));
  }
}

template <typename T>
typename RowTransform<T>::Step RowTransform<T>::convert(const TransformStep& step) {
  Step made;
  made.kind = step.kind;
  made.row_totals = step.row_totals;
  made.places = step.places;
  if (step.columns > 1) made.place_bits = static_cast<unsigned>(std::bit_width(step.columns - 1));
  if constexpr (std::is_floating_point_v<T>) {
    made.target = static_cast<T>(step.target);
    made.divisor = static_cast<T>(step.divisor);
    made.low = static_cast<T>(step.low);
    made.high = static_cast<T>(step.high);
    const auto convert_all = [](const TransformStep::Numbers& from, std::vector<T>& to) {
      if (from == nullptr) return;
      to.reserve(from->size());
      for (const double value : *from) to.push_back(static_cast<T>(value));
    };
    convert_all(step.scale, made.scale);
    convert_all(step.mean, made.mean);
  }
  return made;
}

template <typename T>
uint32_t RowTransform<T>::apply(int64_t position, int32_t* indices, T* values, uint32_t nnz,
                                RowScratch& scratch) const {
  if (nnz == 0) return 0;
  nnz = merge_duplicates(indices, values, nnz);
  for (size_t i = 0; i < first_dense_; ++i) {
    nnz = apply_step(steps_[i], position, indices, values, nnz, scratch);
  }
  return nnz;
}

template <typename T>
uint32_t RowTransform<T>::apply_step(const Step& step, int64_t position, int32_t* indices,
                                     T* values, uint32_t nnz, RowScratch& scratch) const {
  if (step.kind == Kind::kColumns) {
    return move_columns(*step.places, step.place_bits, indices, values, nnz, scratch);
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (step.kind) {
      case Kind::kNormalizeTotal: {
        const double total = step.row_totals != nullptr
                                 ? (*step.row_totals)[static_cast<size_t>(position)]
                                 : total_of(values, nnz);
        if (total != 0) divide(values, nnz, static_cast<T>(total) / step.target);
        break;
      }
      case Kind::kLog1p:
        log1p_with_base(values, nnz, step.divisor, path_);
        break;
      case Kind::kExpm1:
        expm1_with_base(values, nnz, step.divisor);
        break;
      case Kind::kClip:
        clip(values, nnz, step.low, step.high);
        if (step.low == T{0} || step.high == T{0}) return drop_zeros(indices, values, nnz);
        break;
      case Kind::kBinarize:
        binarize(values, nnz, step.low);
        return drop_zeros(indices, values, nnz);
      case Kind::kScale:
        for (uint32_t i = 0; i < nnz; ++i) values[i] /= step.scale[static_cast<size_t>(indices[i])];
        break;
      case Kind::kColumns:
        break;
    }
  }
  return nnz;
}

template <typename T>
void RowTransform<T>::apply_dense(T* values, uint32_t begin, uint32_t end) const {
  if constexpr (std::is_floating_point_v<T>) {
    const uint32_t count = end - begin;
    for (size_t i = first_dense_; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      switch (step.kind) {
        case Kind::kScale:
          for (uint32_t k = 0; k < count && !step.mean.empty(); ++k) {
            values[k] -= step.mean[begin + k];
          }
          for (uint32_t k = 0; k < count; ++k) values[k] /= step.scale[begin + k];
          break;
        case Kind::kLog1p:
          log1p_with_base(values, count, step.divisor, path_);
          break;
        case Kind::kExpm1:
          expm1_with_base(values, count, step.divisor);
          break;
        case Kind::kClip:
          clip(values, count, step.low, step.high);
          break;
        case Kind::kBinarize:
          binarize(values, count, step.low);
          break;
        case Kind::kNormalizeTotal:
        case Kind::kColumns:
          break;  // check_plan refuses them here
      }
    }
  }
}

template class RowTransform<float>;
template class RowTransform<double>;
template class RowTransform<int8_t>;
template class RowTransform<uint8_t>;
template class RowTransform<int16_t>;
template class RowTransform<uint16_t>;
template class RowTransform<int32_t>;
template class RowTransform<uint32_t>;
template class RowTransform<int64_t>;
template class RowTransform<uint64_t>;

template double total_of(const float*, uint32_t) noexcept;
template double total_of(const double*, uint32_t) noexcept;

}  // namespace penstock::kernel
