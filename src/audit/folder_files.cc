#include "audit/folder_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace vernier {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

Status write_text(const fs::path& path, std::string_view text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    return make_error(ErrorCode::kInternal, "cannot write {}: {}", path.string(),
                      errno != 0 ? std::strerror(errno) : "the reason is not known");
  }
  return {};
}

Status write_json(const fs::path& path, const OrderedJson& tree) {
  return write_text(path, tree.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

/// "fp8" of transformers, vLLM and SGLang: of blocks alone, as they disagree about the name of a single scale.
OrderedJson hf_fp8(const std::vector<std::string>& plain) {
  OrderedJson config = {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}};
  config["weight_block_size"] = {128, 128};
  if (!plain.empty()) config["modules_to_not_convert"] = plain;
  return config;
}

OrderedJson compressed_tensors(const QuantTarget& target, const std::vector<std::string>& plain) {
  const Codec& kind = target.codec;
  const int bits = kind.element == Element::kE2M1 ? 4 : 8;
  OrderedJson weights = {{"num_bits", bits}, {"type", "float"}, {"symmetric", true}, {"dynamic", false}};
  OrderedJson inputs = nullptr;  // numbers of 16 bits
  const char* format = "float-quantized";
  if (kind.id == CodecId::kE4M3Channel || kind.id == CodecId::kE4M3Tensor) {
    weights["strategy"] = kind.id == CodecId::kE4M3Channel ? "channel" : "tensor";
    inputs = {{"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"dynamic", true}, {"strategy", "token"}};
  } else {
    weights["strategy"] = kind.outer_scale ? "tensor_group" : "group";
    weights["group_size"] = kind.group_cols;
    if (kind.inner == ScaleType::kE8M0) weights["scale_dtype"] = "torch.uint8";
    format = kind.id == CodecId::kMxfp8 ? "mxfp8-quantized"
             : kind.outer_scale         ? "nvfp4-pack-quantized"
                                        : "mxfp4-pack-quantized";
  }
  OrderedJson group = {
      {"targets", {"Linear"}}, {"weights", weights}, {"input_activations", inputs}, {"format", format}};
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"config_groups", {{"group_0", group}}},
          {"ignore", plain}};
}

/// Null for numbers without scales.
OrderedJson quantization_config(const QuantTarget& target, const std::vector<std::string>& plain) {
  if (target.codec.is_dense()) return nullptr;
  if (target.codec.id == CodecId::kE4M3Block) return hf_fp8(plain);
  return compressed_tensors(target, plain);
}

/// What the source's cache scales, which are written as they are, were made for.
void add_cache_scheme(const std::string& cache, OrderedJson& config) {
  OrderedJson scheme = cache;
  if (cache == "fp8") {
    scheme = {{"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"dynamic", false}, {"strategy", "tensor"}};
  }
  // Of weights that stay as they are: the one dialect that is about a cache alone.
  if (config.is_null()) config = {{"quant_method", "modelopt"}, {"quant_algo", nullptr}, {"ignore", {"*"}}};
  config["kv_cache_scheme"] = std::move(scheme);
}

/// The class that transformers has for a family.
std::string architecture_name(const std::string& model_type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames = {{
      {"llama", "LlamaForCausalLM"},
      {"mistral", "MistralForCausalLM"},
      {"qwen2", "Qwen2ForCausalLM"},
      {"qwen3", "Qwen3ForCausalLM"},
      {"qwen3_moe", "Qwen3MoeForCausalLM"},
      {"mixtral", "MixtralForCausalLM"},
      {"gemma2", "Gemma2ForCausalLM"},
      {"gemma3_text", "Gemma3ForCausalLM"},
      {"gpt_oss", "GptOssForCausalLM"},
  }};
  for (const auto& [type, name] : kNames) {
    if (type == model_type) return std::string(name);
  }
  return {};
}

OrderedJson config_as_read(const Checkpoint& checkpoint) {
  OrderedJson config = OrderedJson::object();
  const auto type = checkpoint.config_json().value("model_type", std::string());
  if (const std::string name = architecture_name(type); !name.empty()) config["architectures"] = {name};
  for (const auto& [key, value] : checkpoint.config_json().items()) config[key] = value;
  return config;
}

Result<OrderedJson> source_config(const Checkpoint& checkpoint) {
  if (!checkpoint.dialect().format.starts_with("GGUF")) {
    // As its file has it, with the order of its keys.
    std::ifstream in(checkpoint.config_origin(), std::ios::binary);
    OrderedJson config = OrderedJson::parse(in, nullptr, false);
    if (!config.is_object()) return corrupt("{}: not a JSON object", checkpoint.config_origin());
    // Files of another layout are written as Hugging Face's, with its configuration.
    if (!config.contains("model_type") && checkpoint.config_json().contains("model_type")) {
      config = config_as_read(checkpoint);
    }
    for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
      config.erase(key);
      if (config.contains("text_config") && config["text_config"].is_object()) config["text_config"].erase(key);
    }
    return config;
  }
  OrderedJson config = config_as_read(checkpoint);
  const GenerationDefaults& generation = checkpoint.generation();
  if (generation.bos_id) config["bos_token_id"] = *generation.bos_id;
  if (generation.eos_ids.size() == 1) config["eos_token_id"] = generation.eos_ids.front();
  if (generation.eos_ids.size() > 1) config["eos_token_id"] = generation.eos_ids;
  config["torch_dtype"] = "bfloat16";
  return config;
}

bool is_weight_file(const fs::path& path) {
  constexpr std::array<std::string_view, 9> kEndings = {".safetensors", ".bin", ".pt",      ".pth", ".gguf",
                                                        ".onnx",        ".h5",  ".msgpack", ".ot"};
  return std::ranges::find(kEndings, path.extension().string()) != kEndings.end();
}

/// Tokenizer, templates, licence: what is neither weights nor says how they are stored.
Status copy_files(const fs::path& from, const fs::path& to) {
  constexpr std::array<std::string_view, 3> kOwn = {"config.json", "model.safetensors.index.json",
                                                    "hf_quant_config.json"};
  std::error_code failure;
  for (auto at = fs::recursive_directory_iterator(from, failure); at != fs::recursive_directory_iterator(); ++at) {
    const fs::directory_entry& entry = *at;
    if (entry.is_directory() && fs::equivalent(entry.path(), to, failure)) at.disable_recursion_pending();
    const fs::path name = entry.path().lexically_relative(from);
    const bool is_hidden =
        std::ranges::any_of(name, [](const fs::path& part) { return part.string().starts_with("."); });
    if (is_hidden || !entry.is_regular_file() || is_weight_file(name)) continue;
    if (std::ranges::find(kOwn, name.string()) != kOwn.end()) continue;
    fs::create_directories((to / name).parent_path(), failure);
    fs::copy_file(entry.path(), to / name, fs::copy_options::overwrite_existing, failure);
    if (failure) return make_error(ErrorCode::kInternal, "cannot copy {}: {}", name.string(), failure.message());
  }
  if (failure) return make_error(ErrorCode::kInternal, "cannot read {}: {}", from.string(), failure.message());
  return {};
}

OrderedJson generation_config(const GenerationDefaults& of) {
  OrderedJson config = OrderedJson::object();
  if (of.bos_id) config["bos_token_id"] = *of.bos_id;
  if (!of.eos_ids.empty()) config["eos_token_id"] = of.eos_ids;
  auto number = [&](const char* key, const std::optional<double>& value) {
    if (value) config[key] = *value;
  };
  number("temperature", of.temperature);
  number("top_p", of.top_p);
  number("min_p", of.min_p);
  number("repetition_penalty", of.repetition_penalty);
  if (of.top_k) config["top_k"] = *of.top_k;
  return config;
}

OrderedJson tokenizer_config(const GgufVocabulary& vocabulary) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  auto token = [&](const char* key, const std::optional<int64_t>& id) {
    if (id && *id >= 0 && static_cast<size_t>(*id) < vocabulary.tokens.size()) {
      config[key] = vocabulary.tokens[static_cast<size_t>(*id)];
    }
  };
  token("bos_token", vocabulary.bos);
  token("eos_token", vocabulary.eos);
  token("unk_token", vocabulary.unknown);
  return config;
}

/// The same files out of a GGUF file's metadata.
Status write_files(const Checkpoint& checkpoint, const QuantiseJob& job, const fs::path& folder) {
  TRY_STATUS(write_json(folder / "generation_config.json", generation_config(checkpoint.generation())));
  for (const StoredTemplate& stored : checkpoint.chat_templates()) {
    const bool is_default = stored.name == "default";
    const fs::path path =
        is_default ? folder / "chat_template.jinja" : folder / "additional_chat_templates" / (stored.name + ".jinja");
    if (fs::path(stored.name).has_parent_path()) continue;  // a name must not lead out of the folder
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    TRY_STATUS(write_text(path, stored.text));
  }
  if (!job.vocabulary) return {};
  TRY_BIND(std::string text, tokenizer_json(*job.vocabulary));
  TRY_STATUS(write_text(folder / "tokenizer.json", text));
  return write_json(folder / "tokenizer_config.json", tokenizer_config(*job.vocabulary));
}

}  // namespace

Status write_folder_files(const Checkpoint& checkpoint, const QuantiseJob& job, const std::string& folder,
                          const std::vector<std::string>& quantised, const std::vector<std::string>& plain) {
  if (checkpoint.dialect().format.starts_with("GGUF")) {
    TRY_STATUS(write_files(checkpoint, job, folder));
  } else {
    TRY_STATUS(copy_files(checkpoint.path(), folder));
  }
  TRY_BIND(OrderedJson config, source_config(checkpoint));
  OrderedJson quantization;
  if (!quantised.empty()) quantization = quantization_config(job.request.target, plain);
  const std::string cache = checkpoint.plan().cache.value_or("");
  if (!cache.empty()) add_cache_scheme(cache, quantization);
  if (!quantised.empty() || !quantization.is_null()) config["quantization_config"] = quantization;
  return write_json(fs::path(folder) / "config.json", config);
}

}  // namespace vernier
