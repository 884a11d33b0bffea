#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/cuda_products.h"
#include "ops/ops.h"

namespace vernier {

cuda::GateRule gate_rule(const GateSpec& spec);

/// The norm of rows that are given before it.
struct RowNorm {
  const float* weight = nullptr;  ///< null: none
  float eps = 0;
};

/// Runs a step's rows through a layer's experts: the router's product, each row's choice and the places of the chosen,
/// all on the device; then both products, which read no weight of an expert that no row chose. A row's answers are
/// added in order of the experts' numbers. One thread.
class CudaExperts {
 public:
  CudaExperts(CudaDevice& device, LaunchQueue& queue, CudaProducts& products)
      : device_(device), queue_(queue), products_(products) {}

  /// From x [rows, hidden] to out [rows, hidden]; with a norm of x before, where takes_norm says so.
  void run(const ExpertsLayer& layer, cuda::ConstRows x, int64_t rows, cuda::Rows out, const RowNorm& norm = {});
  /// Whether the launch that chooses experts for so many rows norms them, too.
  bool takes_norm(const ExpertsLayer& layer, cuda::ConstRows x, int64_t rows);

 private:
  /// Parts of many matrices that begin at one output and have one kind of codes; the others' places are empty.
  struct Group {
    int64_t first_output = 0;
    int64_t most_outputs = 0;
    cuda::Codes kind = cuda::Codes::kF32;
    cuda::FastCodes fast = cuda::FastCodes::kNone;
    int64_t whole = 0;    // experts of which it has most_outputs
    DeviceBuffer views;   // [experts]
    DeviceBuffer biases;  // [experts]
  };
  /// One product's matrices as its kernel reads them; keeps them alive, so that an address names one matrix.
  struct Table {
    std::vector<std::shared_ptr<const PackedMatrix>> matrices;
    std::vector<std::shared_ptr<const PackedVector>> biases;
    std::vector<Group> groups;
  };

  template <Split S>
  const Table* table(const std::vector<Weight<S>>& weights);
  Result<std::unique_ptr<Table>> make_table(std::vector<std::shared_ptr<const PackedMatrix>> matrices,
                                            std::vector<std::shared_ptr<const PackedVector>> biases);
  void multiply(const Table& table, const int32_t* source_rows, cuda::ConstRows x, int64_t places, cuda::Rows out);
  /// How a step's rows go through a layer: null tables where there is no memory.
  struct Way {
    const Table* gate_up = nullptr;
    const Table* down = nullptr;
    bool few = false;     // in two launches
    bool laid = false;    // which read rows that were laid out
    bool routed = false;  // by a launch that makes the router's product and may norm
  };
  Way way_of(const ExpertsLayer& layer, cuda::ConstRows x, int64_t rows);
  void choose(const ExpertsLayer& layer, const Way& way, cuda::ConstRows x, int64_t rows, const RowNorm& norm);
  cuda::RouteCall route_call(const ExpertsSpec& spec, int64_t rows, const float* logits, const float* correction) const;
  cuda::PlacesCall places_call(const ExpertsSpec& spec, int64_t choices) const;
  bool in_two_launches(const Table& gate_up, const Table& down, const ExpertsSpec& spec, int64_t hidden,
                       int64_t choices) const;
  void run_few(const Way& way, const ExpertsSpec& spec, cuda::Rows answers, const cuda::CombineCall& combine);

  /// A step's choices on the device.
  struct Choices {
    int32_t* expert_of = nullptr;          // [rows, chosen]
    float* weight_of = nullptr;            // [rows, chosen]
    int32_t* first = nullptr;              // [experts + 1]
    int32_t* place_of = nullptr;           // [rows, chosen]
    int32_t* row_at = nullptr;             // [places]
    cuda::ActiveExpert* active = nullptr;  // [most_active]
    int32_t most_active = 0;
    uint32_t* laid = nullptr;  // [rows], where they are laid out
  };

  CudaDevice& device_;
  LaunchQueue& queue_;
  CudaProducts& products_;
  std::vector<std::unique_ptr<Table>> tables_;
  Choices choices_;
  DeviceScratch logits_, expert_of_, weight_of_, first_, place_of_, row_at_, active_;
  DeviceScratch gate_up_, gated_, answers_, arrived_;
  DeviceScratch laid_, laid_gated_, routed_;
};

}  // namespace vernier
