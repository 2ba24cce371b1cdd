#pragma once

#include <penstock/experiment.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// What an Experiment stands on: tables and matrices of cells, in any format. Names of measurements
// and layers are as the format has them. Implementations are immutable and safe from any thread.
//
// Errors: NotFound for a measurement or layer that does not exist; the message lists those that do.

namespace penstock::format {

/// The layer of counts in the Census and in most SOMA experiments.
inline constexpr std::string_view kUsualLayer = "raw";

class StoredExperiment {
 public:
  virtual ~StoredExperiment() = default;

  virtual const std::string& uri() const = 0;
  virtual const OpenOptions& options() const = 0;
  virtual DataFrame obs() const = 0;
  virtual std::vector<std::string> measurements() const = 0;
  virtual DataFrame var(std::string_view measurement) const = 0;
  virtual std::vector<std::string> layers(std::string_view measurement) const = 0;
  /// The layer that is read if the user names none.
  virtual std::string default_layer(std::string_view measurement) const = 0;
  virtual Matrix x(std::string_view measurement, std::string_view layer) const = 0;
  virtual std::map<std::string, std::string> metadata() const = 0;
};

using StoredExperimentPtr = std::shared_ptr<const StoredExperiment>;

}  // namespace penstock::format

namespace penstock {

struct Experiment::State {
  format::StoredExperimentPtr stored;
};

}  // namespace penstock
