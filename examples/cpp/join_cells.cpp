// Joins experiments, of any formats, and streams one shuffled epoch of all their cells.
//
//   join_cells NAME=EXPERIMENT...
//   join_cells ours=ours.zarr census=census_data/homo_sapiens

#include <penstock/penstock.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

using namespace penstock::literals;

int main(int argc, char** argv) try {
  std::vector<penstock::JoinExperiment> parts;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t sign = argument.find('=');
    if (sign == std::string::npos) break;
    parts.push_back(
        {penstock::Experiment::open(argument.substr(sign + 1)), argument.substr(0, sign)});
  }
  if (argc < 2 || parts.size() + 1 != static_cast<size_t>(argc)) {
    std::cerr << "usage: join_cells NAME=EXPERIMENT...\n";
    return 2;
  }
  const auto joined = penstock::join_experiments(parts, {.genes = penstock::JoinGenes::kOuter});
  const std::string measurement = joined.measurements()[0];
  for (const auto& part : parts) {
    const auto cells = joined.obs().select("source == '" + part.name + "'");
    std::cout << part.name << ": " << cells.size() << " cells\n";
  }

  penstock::LoaderOptions options;
  options.rows = joined.obs().select("");
  options.batch_size = 128;
  options.seed = 0;
  options.memory_budget = 1_GiB;
  penstock::Loader loader(joined.x(measurement, joined.default_layer(measurement)), options);
  uint64_t cells = 0;
  uint64_t nonzeros = 0;
  while (const auto batch = loader.next()) {
    cells += batch->rows();
    nonzeros += batch->nnz();
  }
  std::cout << cells << " cells x " << joined.var(measurement).row_count() << " genes, " << nonzeros
            << " non-zeros\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
