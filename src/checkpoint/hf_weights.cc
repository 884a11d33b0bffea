#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/byte_reader.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/strict_json.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

/// Which file holds which tensor, as the index says.
using WeightMap = std::map<std::string, std::string>;

Result<WeightMap> read_index(const fs::path& path) {
  TRY_BIND(Json index, read_strict_json(path.string()));
  Error wrong{ErrorCode::kCorrupt, "\"weight_map\" must be an object from tensor names to file names", path.string()};
  if (!index.is_object() || !index.value("weight_map", Json()).is_object()) return wrong;
  WeightMap map;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string()) return wrong;
    auto name = file.get<std::string>();
    // A file name only: an index must not point out of its folder.
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      wrong.message =
          fmt::format("tensor {} is said to be in {}, which is no plain file name", printable(tensor), printable(name));
      return wrong;
    }
    map.emplace(tensor, std::move(name));
  }
  return map;
}

std::vector<std::string> safetensors_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The one file of a folder without an index.
Result<std::string> only_file(const fs::path& folder, const std::vector<std::string>& present) {
  if (std::find(present.begin(), present.end(), kSingleName) != present.end()) return std::string(kSingleName);
  if (present.size() == 1) return present.front();
  if (present.empty()) {
    return not_found("{}: no {} and no {} there; weights in other formats (.bin, .pt) must be converted to safetensors",
                     folder.string(), kSingleName, kIndexName);
  }
  return invalid_argument("{}: several weight files ({}) and no {} that says which belong together", folder.string(),
                          joined(present), kIndexName);
}

Status check_files_exist(const fs::path& folder, const std::set<std::string>& files) {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const std::string& file : files) {
    if (!fs::exists(folder / file, ignored)) missing.push_back(printable(file));
  }
  if (missing.empty()) return {};
  return not_found("{}: {} names {} files, and these are missing: {}; incomplete download?", folder.string(),
                   kIndexName, files.size(), joined(missing));
}

Status add_file(const fs::path& path, CheckpointParts& parts, WeightMap& holder) {
  TRY_BIND(std::shared_ptr<const Safetensors> file, Safetensors::open(path.string()));
  std::string name = path.filename().string();
  for (const SafetensorsTensor& tensor : file->tensors()) {
    auto [other, fresh] = holder.emplace(tensor.name, name);
    if (!fresh) {
      return corrupt("{}: tensor {} stands in {} and in {}", path.parent_path().string(), printable(tensor.name),
                     other->second, name);
    }
    StoredTensor out;
    out.name = out.file_name = tensor.name;
    out.type = std::string(tensor.type->name);
    out.codec = tensor.type->codec;
    out.extents = tensor.extents;
    out.bytes = tensor.bytes;
    out.file = file->file();
    parts.tensors.push_back(std::move(out));
  }
  return {};
}

Status compare_with_index(const fs::path& folder, const WeightMap& index, const WeightMap& holder,
                          CheckpointParts& parts) {
  for (const auto& [tensor, file] : index) {
    auto found = holder.find(tensor);
    if (found == holder.end()) {
      return corrupt("{}: {} puts tensor {} into {}, but no file has it; incomplete download?", folder.string(),
                     kIndexName, printable(tensor), printable(file));
    }
    if (found->second != file) {
      return corrupt("{}: {} puts tensor {} into {}, but it is in {}", folder.string(), kIndexName, printable(tensor),
                     printable(file), found->second);
    }
  }
  if (holder.size() > index.size()) {
    parts.warnings.push_back(
        fmt::format("{} tensors are in the weight files and not in {}", holder.size() - index.size(), kIndexName));
  }
  return {};
}

}  // namespace

Status add_safetensors_file(const std::string& path, CheckpointParts& parts) {
  WeightMap holder;
  return add_file(path, parts, holder);
}

Status add_safetensors(const std::string& folder_name, CheckpointParts& parts) {
  fs::path folder(folder_name);
  std::vector<std::string> present = safetensors_files(folder);
  std::set<std::string> files;
  std::optional<WeightMap> index;
  std::error_code ignored;
  if (fs::exists(folder / kIndexName, ignored)) {
    TRY_BIND(index, read_index(folder / kIndexName));
    for (const auto& [tensor, file] : *index) files.insert(file);
    TRY_STATUS(check_files_exist(folder, files));
  } else {
    TRY_BIND(std::string file, only_file(folder, present));
    files.insert(std::move(file));
  }
  WeightMap holder;
  for (const std::string& file : files) TRY_STATUS(add_file(folder / file, parts, holder));
  if (index) TRY_STATUS(compare_with_index(folder, *index, holder, parts));

  std::vector<std::string> stray;
  for (const std::string& file : present) {
    if (!files.contains(file)) stray.push_back(printable(file));
  }
  if (!stray.empty())
    parts.warnings.push_back(fmt::format("weight files that are not part of the model: {}", joined(stray)));
  return {};
}

}  // namespace vernier
