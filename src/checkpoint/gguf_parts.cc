#include "checkpoint/gguf_parts.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostParts = 10'000;

/// What "NAME-00002-of-00003.gguf" says of itself; `number` counts from 1.
struct PartName {
  std::string stem;
  int64_t number;
  int64_t count;

  std::string path(int64_t part) const { return fmt::format("{}-{:05}-of-{:05}.gguf", stem, part, count); }
};

std::optional<int64_t> five_digits(std::string_view text) {
  if (text.size() != 5) return std::nullopt;
  int64_t number = 0;
  for (char digit : text) {
    if (std::isdigit(static_cast<unsigned char>(digit)) == 0) return std::nullopt;
    number = number * 10 + (digit - '0');
  }
  return number;
}

std::optional<PartName> part_name(const std::string& path) {
  constexpr std::string_view kForm = "-00001-of-00003.gguf";
  if (path.size() <= kForm.size()) return std::nullopt;
  std::string_view tail = std::string_view(path).substr(path.size() - kForm.size());
  std::optional<int64_t> number = five_digits(tail.substr(1, 5));
  std::optional<int64_t> count = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !number || !count) {
    return std::nullopt;
  }
  return PartName{path.substr(0, path.size() - kForm.size()), *number, *count};
}

std::vector<std::string> gguf_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".gguf" && name.rfind("mmproj", 0) != 0) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The one model of a folder: its only file, or any part of its only set.
Result<std::string> model_in(const std::string& folder) {
  std::vector<std::string> files = gguf_files(folder);
  if (files.empty()) return not_found("{}: no .gguf file there", folder);
  std::optional<PartName> set = part_name(files.front());
  bool one_set = set && std::all_of(files.begin(), files.end(), [&](const std::string& file) {
                   std::optional<PartName> part = part_name(file);
                   return part && part->stem == set->stem && part->count == set->count;
                 });
  if (files.size() == 1 || one_set) return files.front();
  std::string names;
  for (const std::string& file : files) names += (names.empty() ? "" : ", ") + fs::path(file).filename().string();
  return invalid_argument("{}: holds several models ({}); name the file you want", folder, names);
}

Error in_file(Error error, const Gguf& file) {
  error.where = file.path();
  return error;
}

}  // namespace

bool has_gguf(const std::string& folder) {
  return !gguf_files(folder).empty();
}

Result<std::shared_ptr<const GgufParts>> GgufParts::open(const std::string& path) {
  std::string file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    TRY_BIND(file, model_in(path));
  }
  std::shared_ptr<GgufParts> parts(new GgufParts());
  std::optional<PartName> named = part_name(file);
  if (named && named->count > 1) {
    if (named->number < 1 || named->number > named->count || named->count > kMostParts) {
      return invalid_argument("{}: there is no part {} of {}", file, named->number, named->count);
    }
    for (int64_t number = 1; number <= named->count; ++number) {
      if (!fs::exists(named->path(number), ignored)) {
        return not_found("{} is missing: part {} of {}; is the download complete?", named->path(number), number,
                         named->count);
      }
      TRY_BIND(std::shared_ptr<const Gguf> part, Gguf::open(named->path(number)));
      parts->files_.push_back(std::move(part));
    }
  } else {
    TRY_BIND(std::shared_ptr<const Gguf> whole, Gguf::open(file));
    parts->files_.push_back(std::move(whole));
  }
  for (size_t i = 0; i < parts->files_.size(); ++i) TRY_STATUS(parts->check_part(i));
  TRY_STATUS(parts->collect_tensors());
  return std::shared_ptr<const GgufParts>(std::move(parts));
}

Status GgufParts::check_part(size_t index) const {
  const Gguf& file = *files_[index];
  auto count = static_cast<int64_t>(files_.size());
  TRY_BIND(std::optional<int64_t> said_count, file.integer("split.count"));
  TRY_BIND(std::optional<int64_t> said_number, file.integer("split.no"));
  if (count == 1) {
    if (said_count.value_or(1) <= 1) return {};
    return in_file(invalid_argument("this is one of {} parts, and its name does not say which; name the parts "
                                    "NAME-00001-of-{:05}.gguf and so on",
                                    *said_count, *said_count),
                   file);
  }
  if (said_count != count || said_number != static_cast<int64_t>(index)) {
    return in_file(corrupt("named part {} of {}, but the file calls itself part {} of {}: renamed, swapped or copied?",
                           index + 1, count, said_number ? *said_number + 1 : 0, said_count.value_or(0)),
                   file);
  }
  if (index == 0) return {};
  for (const auto& [key, value] : file.metadata()) {
    const GgufValue* other = first().find(key);
    if (other == nullptr || key == "split.no" || *other == value) continue;
    return in_file(corrupt("key {} differs from that in part 1: are these parts of one model?", printable(key)), file);
  }
  return {};
}

Status GgufParts::collect_tensors() {
  for (size_t part = 0; part < files_.size(); ++part) {
    for (const GgufTensor& tensor : files_[part]->tensors()) {
      auto [twin, fresh] = names_.emplace(tensor.name, tensors_.size());
      if (!fresh) {
        return corrupt("tensor {} stands in part {} and in part {}", printable(tensor.name),
                       tensors_[twin->second].part + 1, part + 1);
      }
      tensors_.push_back({&tensor, part});
    }
  }
  TRY_BIND(std::optional<int64_t> said, first().integer("split.tensors.count"));
  if (said && *said != static_cast<int64_t>(tensors_.size())) {
    return in_file(corrupt("split.tensors.count is {}, but the parts hold {} tensors", *said, tensors_.size()),
                   first());
  }
  return {};
}

const GgufTensor* GgufParts::find(std::string_view name) const {
  auto found = names_.find(name);
  return found == names_.end() ? nullptr : tensors_[found->second].tensor;
}

}  // namespace vernier
