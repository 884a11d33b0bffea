#include "backends/cuda/cuda_experts.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/cuda_attention.h"
#include "backends/cuda/cuda_matrix.h"
#include "backends/cuda/kernel_choice.h"
#include "backends/cuda/kernels/fast_held.h"

namespace vernier {
namespace {

constexpr int64_t kMostChosenRows = 64;  // by one block; beyond, a row has one of its own

}  // namespace

cuda::GateRule gate_rule(const GateSpec& spec) {
  CHECK(spec.slope == 1 || spec.act == Act::kSilu, "a slope of {} of an activation other than silu", spec.slope);
  cuda::GateRule rule;
  rule.act = spec.act == Act::kSilu   ? cuda::Activation::kSilu
             : spec.act == Act::kGelu ? cuda::Activation::kGelu
                                      : cuda::Activation::kGeluTanh;
  rule.limit = spec.limit > 0 ? spec.limit : 0;
  rule.slope = spec.slope;
  rule.up_offset = spec.up_offset;
  return rule;
}

Result<std::unique_ptr<CudaExperts::Table>> CudaExperts::make_table(
    std::vector<std::shared_ptr<const PackedMatrix>> matrices,
    std::vector<std::shared_ptr<const PackedVector>> biases) {
  auto table = std::make_unique<Table>();
  std::vector<std::vector<cuda::QView>> views;  // of each group
  for (size_t expert = 0; expert < matrices.size(); ++expert) {
    for (const CudaRows& part : CudaMatrix::of(*matrices[expert]).parts()) {
      auto it = std::ranges::find_if(table->groups, [&](const Group& group) {
        return group.first_output == part.first_output && group.kind == part.view.kind && group.fast == part.fast;
      });
      if (it == table->groups.end()) {
        table->groups.push_back({part.first_output, 0, part.view.kind, part.fast, 0, {}, {}});
        views.emplace_back(matrices.size());
        it = table->groups.end() - 1;
      }
      it->most_outputs = std::max(it->most_outputs, part.view.rows);
      views[static_cast<size_t>(it - table->groups.begin())][expert] = part.view;
    }
  }
  for (size_t i = 0; i < table->groups.size(); ++i) {
    Group& group = table->groups[i];
    group.whole = std::ranges::count(views[i], group.most_outputs, &cuda::QView::rows);
    std::vector<const float*> numbers;
    for (size_t expert = 0; expert < matrices.size(); ++expert) {
      const float* bias = CudaVector::numbers(biases[expert].get(), matrices[expert]->rows());
      numbers.push_back(bias == nullptr ? nullptr : bias + group.first_output);
    }
    TRY_BIND(group.views, device_.take_copy(std::as_bytes(std::span(std::as_const(views[i]))), "experts' views"));
    TRY_BIND(group.biases, device_.take_copy(std::as_bytes(std::span(std::as_const(numbers))), "experts' biases"));
  }
  table->matrices = std::move(matrices);
  table->biases = std::move(biases);
  return table;
}

/// The table of these weights, made when they are met first. Null, and the queue says why, where it cannot be.
template <Split S>
const CudaExperts::Table* CudaExperts::table(const std::vector<Weight<S>>& weights) {
  for (const auto& known : tables_) {
    const bool same = std::ranges::equal(known->matrices, weights, {}, {}, &Weight<S>::matrix) &&
                      std::ranges::equal(known->biases, weights, {}, {}, &Weight<S>::bias);
    if (same) return known.get();
  }
  std::vector<std::shared_ptr<const PackedMatrix>> matrices;
  std::vector<std::shared_ptr<const PackedVector>> biases;
  for (const Weight<S>& weight : weights) {
    matrices.push_back(weight.matrix);
    biases.push_back(weight.bias);
  }
  Result<std::unique_ptr<Table>> made = make_table(std::move(matrices), std::move(biases));
  if (!made.ok()) {
    queue_.fail(std::move(made).error());
    return nullptr;
  }
  tables_.push_back(std::move(made).value());
  return tables_.back().get();
}

void CudaExperts::multiply(const Table& table, const int32_t* source_rows, cuda::ConstRows x, int64_t places,
                           cuda::Rows out) {
  for (const Group& group : table.groups) {
    cuda::GroupedProductCall call;
    call.kind = group.kind;
    call.weights = group.views.as<const cuda::QView>();
    call.biases = group.biases.as<const float* const>();
    call.first = choices_.first;
    call.source_rows = source_rows;
    call.matrices = static_cast<int32_t>(table.matrices.size());
    call.most_outputs = group.most_outputs;
    call.x = x;
    call.out = {out.data + group.first_output, out.stride};
    products_.multiply_grouped(call, group.fast, table.matrices.front()->cols(), places);
  }
}

CudaExperts::Way CudaExperts::way_of(const ExpertsLayer& layer, cuda::ConstRows x, int64_t rows) {
  Way way{table(layer.gate_up), table(layer.down)};
  if (way.gate_up == nullptr || way.down == nullptr) return way;
  const int64_t hidden = layer.router.inputs();
  way.few = aligned(x) && in_two_launches(*way.gate_up, *way.down, layer.spec, hidden, rows * layer.spec.chosen);
  const auto four_bits = [](const Table& table) { return table.groups.front().fast == cuda::FastCodes::kMxfp4; };
  way.laid = way.few && four_bits(*way.gate_up) && four_bits(*way.down);
  way.routed = way.laid &&
               judge_router(CudaMatrix::of(*layer.router.matrix).parts(), layer.spec, rows).code == ReasonCode::kChosen;
  return way;
}

bool CudaExperts::takes_norm(const ExpertsLayer& layer, cuda::ConstRows x, int64_t rows) {
  return way_of(layer, x, rows).routed;
}

cuda::RouteCall CudaExperts::route_call(const ExpertsSpec& spec, int64_t rows, const float* logits,
                                        const float* correction) const {
  cuda::RouteCall route;
  route.logits = logits;
  route.correction = correction;
  route.rows = rows;
  route.experts = spec.experts;
  route.chosen = spec.chosen;
  route.groups = spec.groups;
  route.chosen_groups = spec.chosen_groups;
  route.softmax = spec.score == RouterScore::kSoftmax;
  route.normalize = spec.normalize;
  route.best_two = spec.group_score == GroupScore::kBestTwo;
  route.scale = spec.scale;
  route.expert_of = choices_.expert_of;
  route.weight_of = choices_.weight_of;
  return route;
}

cuda::PlacesCall CudaExperts::places_call(const ExpertsSpec& spec, int64_t choices) const {
  cuda::PlacesCall places;
  places.expert_of = choices_.expert_of;
  places.choices = choices;
  places.chosen = spec.chosen;
  places.experts = spec.experts;
  places.first = choices_.first;
  places.place_of = choices_.place_of;
  places.row_at = choices_.row_at;
  places.active = choices_.active;
  places.most_active = choices_.most_active;
  places.weighted = spec.weighted();
  return places;
}

void CudaExperts::choose(const ExpertsLayer& layer, const Way& way, cuda::ConstRows x, int64_t rows,
                         const RowNorm& norm) {
  const ExpertsSpec& spec = layer.spec;
  const int64_t choices = rows * spec.chosen, hidden = layer.router.inputs();
  auto* logits = logits_.reserve<float>(device_, queue_, rows * spec.experts, "a router's logits");
  choices_.expert_of = expert_of_.reserve<int32_t>(device_, queue_, choices, "choices");
  choices_.weight_of = weight_of_.reserve<float>(device_, queue_, choices, "choices");
  choices_.first = first_.reserve<int32_t>(device_, queue_, spec.experts + 1, "choices");
  choices_.place_of = place_of_.reserve<int32_t>(device_, queue_, choices, "choices");
  choices_.row_at = row_at_.reserve<int32_t>(device_, queue_, choices, "choices");
  choices_.most_active = static_cast<int32_t>(std::min<int64_t>(choices, spec.weighted()));
  choices_.active = active_.reserve<cuda::ActiveExpert>(device_, queue_, choices_.most_active, "choices");
  choices_.laid = nullptr;
  if (way.laid) {
    choices_.laid = laid_.reserve<uint32_t>(device_, queue_, rows * cuda::laid_row_words(hidden), "experts' rows");
  }
  auto* arrived = routed_.reserve_zeros<uint32_t>(device_, queue_, 1, "a router's counter");
  if (queue_.failed()) return;
  const cuda::RouteCall route =
      route_call(spec, rows, logits, CudaVector::numbers(layer.correction.get(), spec.experts));
  const cuda::PlacesCall places = places_call(spec, choices);
  const float* bias = CudaVector::numbers(layer.router.bias.get(), spec.experts);
  if (way.routed) {
    cuda::RouterCall router;
    router.router.parts[0].weight = CudaMatrix::of(*layer.router.matrix).parts().front().view;
    router.router.part_count = 1;
    router.router.outputs = spec.experts;
    router.router.x = x;
    router.router.rows = rows;
    router.router.out = {logits, spec.experts};
    router.router.bias = bias;
    router.norm = norm.weight;
    router.norm_eps = norm.eps;
    router.route = route;
    router.places = places;
    router.laid = choices_.laid;
    router.arrived = arrived;
    return queue_.launch("router", cuda::route_few, router);
  }
  products_.multiply(*layer.router.matrix, bias, x, rows, {logits, spec.experts});
  if (way.laid || rows <= kMostChosenRows) {
    return queue_.launch("choice of experts", cuda::choose, cuda::ChooseCall{route, places, x, hidden, choices_.laid});
  }
  queue_.launch("choice of experts", cuda::route, route);
  queue_.launch("places of experts", cuda::find_places, places);
}

void CudaExperts::run(const ExpertsLayer& layer, cuda::ConstRows x, int64_t rows, cuda::Rows out, const RowNorm& norm) {
  const ExpertsSpec& spec = layer.spec;
  const auto weighted = static_cast<size_t>(spec.weighted());
  CHECK(layer.router.outputs() == spec.experts && layer.gate_up.size() == weighted && layer.down.size() == weighted,
        "{}: a router of {}, {} and {} matrices for {} experts, {} of them identity", layer.name,
        layer.router.outputs(), layer.gate_up.size(), layer.down.size(), spec.experts, spec.identity);
  if (const Reason reason = judge_route(spec); reason.code != ReasonCode::kChosen) {
    return queue_.fail(unsupported("{}: {}; use --backend cpu", layer.name, reason.detail));
  }
  const int64_t choices = rows * spec.chosen, hidden = layer.router.inputs();
  const Way way = way_of(layer, x, rows);
  CHECK(norm.weight == nullptr || way.routed, "{}: rows that are not normed", layer.name);
  choose(layer, way, x, rows, norm);
  const cuda::Rows answers = {answers_.reserve<float>(device_, queue_, choices * hidden, "experts' answers"), hidden};
  if (queue_.failed()) return;
  cuda::CombineCall combine;
  combine.answers = answers;
  combine.x = x;
  combine.expert_of = choices_.expert_of;
  combine.weight_of = choices_.weight_of;
  combine.place_of = choices_.place_of;
  combine.rows = rows;
  combine.cols = hidden;
  combine.chosen = spec.chosen;
  combine.weighted = spec.weighted();
  combine.out = out;
  if (way.few) return run_few(way, spec, answers, combine);
  const cuda::Rows both = {gate_up_.reserve<float>(device_, queue_, choices * 2 * spec.width, "gate and up"),
                           2 * spec.width};
  const cuda::Rows gated = {gated_.reserve<float>(device_, queue_, choices * spec.width, "gated rows"), spec.width};
  if (queue_.failed()) return;
  multiply(*way.gate_up, choices_.row_at, x, choices, both);
  const int32_t* made = choices_.first + spec.weighted();  // experts without weights have the last places
  queue_.launch("gate", cuda::gate, both, gate_rule(spec.gate), choices, spec.width, made, gated);
  multiply(*way.down, nullptr, gated, choices, answers);
  queue_.launch("sum of experts", cuda::combine, combine);
}

/// Gate and up are one part of each expert's matrix or two, and down is one, all with the same kind of fast codes.
bool CudaExperts::in_two_launches(const Table& gate_up, const Table& down, const ExpertsSpec& spec, int64_t hidden,
                                  int64_t choices) const {
  const auto even = [&](const Table& table, size_t most_groups) {
    return table.groups.size() <= most_groups && std::ranges::all_of(table.groups, [&](const Group& group) {
             return group.fast != cuda::FastCodes::kNone && group.fast == table.groups.front().fast &&
                    group.whole == static_cast<int64_t>(table.matrices.size());
           });
  };
  const auto& groups = gate_up.groups;
  if (!even(gate_up, 2) || !even(down, 1)) return false;
  if (groups.size() == 2 && (groups[0].most_outputs != spec.width || groups[1].first_output != spec.width))
    return false;
  return judge_fast_experts(spec, hidden, choices, fast_device(device_.facts())).code == ReasonCode::kChosen;
}

void CudaExperts::run_few(const Way& way, const ExpertsSpec& spec, cuda::Rows answers,
                          const cuda::CombineCall& combine) {
  const int blocks_each = way.laid ? 3 : 4;  // of a processor
  const Group &gates = way.gate_up->groups.front(), &ups = way.gate_up->groups.back();
  const Group& down = way.down->groups.front();
  const int64_t choices = combine.rows * spec.chosen;
  cuda::FastExpertsCall call;
  call.weights[0] = gates.views.as<const cuda::QView>();
  call.weights[1] = ups.views.as<const cuda::QView>();
  call.biases[0] = gates.biases.as<const float* const>();
  call.biases[1] = ups.biases.as<const float* const>();
  call.first_row[1] = spec.width - ups.first_output;
  call.codes = gates.fast;
  call.outputs = spec.width;
  call.cols = combine.cols;
  call.active = choices_.active;
  call.most_active = choices_.most_active;
  call.rows = combine.rows;
  call.source_rows = choices_.row_at;
  call.x = combine.x;
  call.gate = gate_rule(spec.gate);
  call.filled = blocks_each * device_.facts().multiprocessors;
  auto* arrived =
      arrived_.reserve_zeros<uint32_t>(device_, queue_, combine.cols / cuda::kStripOutputs, "experts' counters");
  cuda::FastExpertsCall back;
  back.weights[0] = down.views.as<const cuda::QView>();
  back.biases[0] = down.biases.as<const float* const>();
  back.codes = down.fast;
  back.outputs = combine.cols;
  back.cols = spec.width;
  back.active = call.active;
  back.most_active = call.most_active;
  back.rows = call.rows;
  back.out = answers;
  back.filled = call.filled;
  if (way.laid) {
    auto* laid =
        laid_gated_.reserve<uint32_t>(device_, queue_, choices * cuda::laid_row_words(spec.width), "gated rows");
    if (queue_.failed()) return;
    queue_.launch("experts' gates", cuda::held_gated_experts, cuda::HeldExpertsCall{call, choices_.laid, laid});
    return queue_.launch("experts' answers", cuda::held_answering_experts, cuda::HeldExpertsCall{back, laid, nullptr},
                         combine, arrived);
  }
  call.out = {gated_.reserve<float>(device_, queue_, choices * spec.width, "gated rows"), spec.width};
  back.x = call.out;
  if (queue_.failed()) return;
  queue_.launch("experts' gates", cuda::fast_gated_experts, call);
  queue_.launch("experts' answers", cuda::fast_answering_experts, back, combine, arrived);
}

}  // namespace vernier
