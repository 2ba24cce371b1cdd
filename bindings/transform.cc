#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <penstock/error.h>
#include <penstock/transform.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "register.h"
#include "support/numpy_array.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

template <typename T>
using OptionalVector = std::optional<Vector<T>>;

TransformStep::Numbers numbers(const OptionalVector<double>& array) {
  if (!array) return nullptr;
  return std::make_shared<const std::vector<double>>(copy_of(*array));
}

TransformStep& add(TransformPlan& plan, TransformStep::Kind kind) {
  TransformStep step;
  step.kind = kind;
  return plan.steps.emplace_back(std::move(step));
}

void add_tokens(TransformPlan& plan, const Vector<double>& medians, const Vector<int64_t>& tokens,
                double target, uint32_t max_tokens, int64_t pad, std::optional<int64_t> first,
                std::optional<int64_t> last, const OptionalVector<double>& row_totals,
                const std::string& dtype) {
  if (dtype != "int32" && dtype != "int64") {
    throw InvalidArgument("tokens are int32 or int64, got " + dtype);
  }
  plan.tokens = RankTokens{target,
                           copy_of(medians),
                           copy_of(tokens),
                           max_tokens,
                           pad,
                           first,
                           last,
                           numbers(row_totals),
                           dtype == "int32" ? DataType::kInt32 : DataType::kInt64};
}

}  // namespace

void register_transform(nb::module_& module) {
  using Kind = TransformStep::Kind;
  nb::class_<TransformPlan>(module, "TransformPlan",
                            "Steps on each cell's values, in the order in which they are added.")
      .def(nb::init<>())
      .def(
          "normalize_total",
          [](TransformPlan& self, double target, const OptionalVector<double>& row_totals) {
            TransformStep& step = add(self, Kind::kNormalizeTotal);
            step.target = target;
            step.row_totals = numbers(row_totals);
          },
          nb::arg("target"), nb::arg("row_totals").none())
      .def(
          "log1p",
          [](TransformPlan& self, double divisor) { add(self, Kind::kLog1p).divisor = divisor; },
          nb::arg("divisor"))
      .def(
          "expm1",
          [](TransformPlan& self, double divisor) { add(self, Kind::kExpm1).divisor = divisor; },
          nb::arg("divisor"))
      .def(
          "clip",
          [](TransformPlan& self, double low, double high) {
            TransformStep& step = add(self, Kind::kClip);
            step.low = low;
            step.high = high;
          },
          nb::arg("low"), nb::arg("high"))
      .def(
          "binarize",
          [](TransformPlan& self, double threshold) { add(self, Kind::kBinarize).low = threshold; },
          nb::arg("threshold"))
      .def(
          "scale",
          [](TransformPlan& self, const Vector<double>& scale, const OptionalVector<double>& mean) {
            TransformStep& step = add(self, Kind::kScale);
            step.scale = numbers(scale);
            step.mean = numbers(mean);
          },
          nb::arg("scale"), nb::arg("mean").none())
      .def(
          "columns",
          [](TransformPlan& self, const Vector<int32_t>& places, uint32_t columns) {
            TransformStep& step = add(self, Kind::kColumns);
            step.places = std::make_shared<const std::vector<int32_t>>(copy_of(places));
            step.columns = columns;
          },
          nb::arg("places"), nb::arg("columns"))
      .def("rank_tokens", &add_tokens, nb::arg("medians"), nb::arg("tokens"), nb::arg("target"),
           nb::arg("max_tokens"), nb::arg("pad"), nb::arg("first").none(), nb::arg("last").none(),
           nb::arg("row_totals").none(), nb::arg("dtype"));
}

}  // namespace penstock::python
