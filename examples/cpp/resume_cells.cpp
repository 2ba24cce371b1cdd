// Reads one epoch on several ranks, saves a checkpoint after each step, and resumes from it.
//
//   resume_cells EXPERIMENT LAYER FOLDER RANKS [MILLISECONDS]
//
// Kill it at any moment (kill -9), and start it again with the same FOLDER, on the same or another
// number of ranks. At the end, FOLDER/cells.txt has each cell exactly once. MILLISECONDS is the
// length of a training step.
//
// Here the ranks are loaders of one process, so that the program needs no library for processes. In
// a real job each rank is a process with its own loader, and saves or reads the same state.

#include <penstock/penstock.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using namespace penstock::literals;

/// The state that training saves: here the number of valid bytes of cells.txt, and the state of the
/// loaders.
struct Checkpoint {
  uint64_t bytes = 0;
  std::optional<penstock::ResumeState> state;
};

Checkpoint load(const fs::path& file) {
  Checkpoint checkpoint;
  std::ifstream in(file);
  if (!in) return checkpoint;
  in >> checkpoint.bytes;
  std::ostringstream text;
  text << in.rdbuf();
  checkpoint.state = penstock::ResumeState::from_json(text.str());
  return checkpoint;
}

/// Replaces the file atomically: a kill leaves the old file or the new one.
void save(const fs::path& file, uint64_t bytes, const penstock::ResumeState& state) {
  const fs::path partial = file.string() + ".partial";
  std::ofstream out(partial);
  out << bytes << "\n" << state.to_json() << "\n";
  out.close();
  if (!out) throw std::runtime_error("cannot write " + partial.string());
  fs::rename(partial, file);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5 || std::stoul(argv[4]) == 0) {
    std::cerr << "usage: resume_cells EXPERIMENT LAYER FOLDER RANKS [MILLISECONDS]\n";
    return 2;
  }
  const fs::path folder = argv[3];
  const auto ranks = static_cast<uint32_t>(std::stoul(argv[4]));
  const std::chrono::milliseconds step(argc > 5 ? std::stol(argv[5]) : 0);

  const auto experiment = penstock::Experiment::open(argv[1]);
  const auto matrix = experiment.x("RNA", argv[2]);
  penstock::LoaderOptions options;
  options.rows = experiment.obs().select("");
  options.batch_size = 32;
  options.memory_budget = 64_MiB;
  options.uneven = penstock::UnevenRows::kExact;  // every cell; kDrop would drop some
  options.world_size = ranks;

  fs::create_directories(folder);
  const fs::path cells = folder / "cells.txt";
  const Checkpoint checkpoint = load(folder / "checkpoint");
  if (checkpoint.state && checkpoint.state->epoch != 0) {
    std::cout << "the epoch is done\n";
    return 0;
  }
  // Discards what was written after the checkpoint: those batches come again.
  std::ofstream(cells, std::ios::app).close();
  fs::resize_file(cells, checkpoint.bytes);
  std::ofstream out(cells, std::ios::app);

  std::vector<penstock::ResumableLoader> loaders;
  for (options.rank = 0; options.rank < ranks; ++options.rank) {
    if (checkpoint.state) {
      loaders.emplace_back(matrix, options, *checkpoint.state);
    } else {
      loaders.emplace_back(matrix, options);
    }
  }
  for (bool more = true; more;) {
    more = false;
    for (auto& loader : loaders) {
      const auto batch = loader.next();
      if (batch == nullptr) continue;
      more = true;
      for (const int64_t cell : batch->joinids()) out << cell << "\n";
    }
    std::this_thread::sleep_for(step);
    if (!out.flush()) throw std::runtime_error("cannot write " + cells.string());
    save(folder / "checkpoint", static_cast<uint64_t>(out.tellp()), loaders[0].state());
  }
  std::cout << "the epoch is done\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
