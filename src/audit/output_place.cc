#include "audit/output_place.h"

#include <fmt/format.h>

#include <vector>

namespace vernier {
namespace {

namespace fs = std::filesystem;

fs::path with_ending(fs::path path, const char* ending) {
  path += ending;
  return path;
}

/// `inner` is `outer`, or lies below it.
bool lies_in(const fs::path& inner, const fs::path& outer) {
  const fs::path way = inner.lexically_relative(outer);
  return !way.empty() && *way.begin() != "..";
}

bool is_gguf(const fs::path& path) {
  return path.extension() == ".gguf";
}

bool has_weights(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".safetensors") return true;
  }
  return false;
}

/// What stands at `out` may be replaced.
Status check_there(const fs::path& out, bool overwrite) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(out, ignored);
  if (is_gguf(out) && is_folder) return invalid_argument("{} is a folder; name a file", out.string());
  if (!is_gguf(out) && !is_folder) {
    return invalid_argument("{} is a file, and a folder would be written; name a folder, or a file that ends in .gguf",
                            out.string());
  }
  if (is_folder && fs::is_empty(out, ignored)) return {};
  if (!overwrite) return invalid_argument("{} exists; give another --out, or --overwrite", out.string());
  if (is_folder && (!fs::exists(out / "config.json", ignored) || !has_weights(out))) {
    return invalid_argument("{} is not empty and holds no checkpoint; --overwrite replaces nothing but checkpoints",
                            out.string());
  }
  return {};
}

/// What the new folder has none of, and what holds no weights, goes back to where it was.
Status keep_others(const fs::path& aside, const fs::path& out) {
  std::error_code failure;
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(aside, failure)) {
    const fs::path name = entry.path().filename();
    const bool is_weights = name.extension() == ".safetensors" || name == "model.safetensors.index.json";
    if (!is_weights && !fs::exists(out / name)) others.push_back(name);
  }
  for (const fs::path& name : others) {
    if (!failure) fs::rename(aside / name, out / name, failure);
  }
  if (!failure) return {};
  return make_error(ErrorCode::kInternal, "{} is written; what stood there before is in {}: {}", out.string(),
                    aside.string(), failure.message());
}

}  // namespace

Result<OutputPlace> OutputPlace::make(const std::string& given, const Checkpoint& checkpoint, bool overwrite) {
  const std::string& source = checkpoint.path();
  fs::path out = fs::path(given).lexically_normal();
  if (!out.has_filename()) out = out.parent_path();
  if (out.empty() || out == "." || out == ".." || !out.has_filename()) {
    return invalid_argument("--out '{}': give the folder or the file a name", given);
  }
  std::error_code ignored;
  if (fs::equivalent(out, source, ignored)) return invalid_argument("--out {} is the source", given);
  for (const std::string& file : checkpoint.files()) {
    if (fs::equivalent(out, file, ignored))
      return invalid_argument("--out {} is a part of the source, {}", given, file);
  }
  const fs::path whole = fs::weakly_canonical(out, ignored), from = fs::weakly_canonical(source, ignored);
  if (lies_in(from, whole)) return invalid_argument("--out {} holds the source, {}", given, source);
  if (fs::is_directory(from, ignored) && lies_in(whole, from)) {
    return invalid_argument("--out {} lies in the source, {}", given, source);
  }
  if (fs::exists(out, ignored)) TRY_STATUS(check_there(out, overwrite));
  return OutputPlace(out, with_ending(out, ".partial"));
}

Status OutputPlace::make_parent() const {
  std::error_code failure;
  if (!is_gguf(out_) && out_.has_parent_path()) fs::create_directories(out_.parent_path(), failure);
  if (failure) return make_error(ErrorCode::kInternal, "cannot write {}: {}", out_.string(), failure.message());
  return {};
}

Status OutputPlace::put() const {
  std::error_code failure;
  if (!is_gguf(out_) && fs::exists(out_, failure) && !fs::is_empty(out_, failure)) return replace_folder();
  if (!is_gguf(out_)) fs::remove(out_, failure);  // an empty folder
  fs::rename(partial_, out_, failure);
  if (failure) return make_error(ErrorCode::kInternal, "cannot write {}: {}", out_.string(), failure.message());
  return {};
}

Status OutputPlace::replace_folder() const {
  const fs::path aside = with_ending(out_, ".replaced");
  std::error_code failure, ignored;
  if (fs::exists(aside, ignored)) {
    return make_error(ErrorCode::kInternal, "cannot replace {}: {} is in the way", out_.string(), aside.string());
  }
  fs::rename(out_, aside, failure);
  if (!failure) {
    fs::rename(partial_, out_, failure);
    if (failure) fs::rename(aside, out_, ignored);
  }
  if (failure) return make_error(ErrorCode::kInternal, "cannot replace {}: {}", out_.string(), failure.message());
  TRY_STATUS(keep_others(aside, out_));
  fs::remove_all(aside, ignored);
  return {};
}

}  // namespace vernier
