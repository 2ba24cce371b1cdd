// Streams one shuffled epoch of an experiment and prints its totals.
//
//   stream_cells EXPERIMENT [LAYER [FILTER]]
//   stream_cells census_data/homo_sapiens raw "tissue_general == 'tongue'"

#include <penstock/penstock.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <string>

using namespace penstock::literals;

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: stream_cells EXPERIMENT [LAYER [FILTER]]\n";
    return 2;
  }
  const std::string layer = argc > 2 ? argv[2] : "raw";
  const std::string filter = argc > 3 ? argv[3] : "";

  const auto experiment = penstock::Experiment::open(argv[1]);
  penstock::LoaderOptions options;
  options.rows = experiment.obs().select(filter);
  options.batch_size = 128;
  options.seed = 0;
  options.memory_budget = 1_GiB;
  penstock::Loader loader(experiment.x("RNA", layer), options);

  uint64_t cells = 0;
  uint64_t nonzeros = 0;
  double sum = 0;
  while (const auto batch = loader.next()) {
    const auto* values = reinterpret_cast<const float*>(batch->csr().data);
    for (uint64_t i = 0; i < batch->nnz(); ++i) sum += values[i];
    cells += batch->rows();
    nonzeros += batch->nnz();
  }
  std::cout << cells << " cells, " << nonzeros << " non-zeros, sum " << sum << ", "
            << loader.stats().bytes_read << " bytes read\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
