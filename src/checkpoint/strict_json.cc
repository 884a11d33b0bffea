#include "checkpoint/strict_json.h"

#include <set>
#include <vector>

#include "base/file_map.h"
#include "checkpoint/byte_reader.h"

namespace vernier {

namespace {

constexpr int kDeepest = 64;

using Json = nlohmann::json;

/// Watches a parse: the depth, and the keys of every open object.
class KeyWatch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        open_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        open_.pop_back();
        break;
      case Json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!open_.back().insert(key).second && duplicate_.empty()) duplicate_ = key.empty() ? "(empty)" : key;
        break;
      }
      default:
        break;
    }
    if (depth > kDeepest) too_deep_ = true;
    return !too_deep_;  // what lies deeper is dropped, so that a hostile file costs no memory
  }

  Status status() const {
    if (too_deep_) return corrupt("JSON nested deeper than {}", kDeepest);
    if (!duplicate_.empty()) return corrupt("key {} stands twice in one JSON object", printable(duplicate_));
    return {};
  }

 private:
  std::vector<std::set<std::string, std::less<>>> open_;
  std::string duplicate_;
  bool too_deep_ = false;
};

}  // namespace

Result<Json> parse_strict_json(std::string_view text) {
  KeyWatch watch;
  try {
    Json parsed = Json::parse(text.begin(), text.end(), [&watch](int depth, Json::parse_event_t event, Json& value) {
      return watch(depth, event, value);
    });
    TRY_STATUS(watch.status());
    return parsed;
  } catch (const Json::exception& failure) {
    return corrupt("not JSON: {}", printable(failure.what()));
  }
}

Result<Json> read_strict_json(const std::string& path) {
  TRY_BIND(std::shared_ptr<const FileMap> file, FileMap::open(path));
  std::span<const std::byte> bytes = file->bytes();
  auto parsed = parse_strict_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (parsed.ok()) return parsed;
  Error error = std::move(parsed).error();
  error.where = path;
  return error;
}

}  // namespace vernier
