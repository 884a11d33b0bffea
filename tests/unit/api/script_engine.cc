#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/library_engine.h"
#include "base/log.h"
#include "engine/scripted_step_runner.h"
#include "grammar/grammar_compiler.h"
#include "testing/temp_folder.h"
#include "vernier/vernier.h"

// The public C++ headers define names that the rooms have too, in an inline namespace: this file sees the C API alone.
namespace vernier::testing {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

vernier_engine* open_script_handle(const std::string& script, int running) {
  const Tokenizer base =
      Tokenizer::from_json(text_of(std::string(VERNIER_TEST_DATA) + "/tokenizers/mini-merges.json")).value();
  auto scripted =
      std::make_shared<const ScriptedModel>(ScriptedModel::make(ScriptFile::parse(script).value(), base).value());
  auto model = std::make_shared<ServedModel>();
  model->names = {"script"};
  model->script = scripted;
  model->tokenizer = std::shared_ptr<const Tokenizer>(scripted, &scripted->tokenizer());
  model->end_tokens = scripted->stop_tokens();
  model->format = model->tool_format = scripted->format();
  model->chat_template = std::make_shared<const ChatTemplate>(
      ChatTemplate::parse("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}").value());
  EngineOptions options;
  options.context_tokens = 1024;
  options.max_sequences = running;
  options.max_queue = running == 64 ? 256 : 1;
  const auto vocab = static_cast<int32_t>(scripted->tokenizer().vocabulary_size());
  model->engine = Engine::start(std::make_unique<ScriptedStepRunner>(vocab, 4096), options).value();
  return std::make_unique<LibraryEngine>(model).release()->handle();
}

void log_a_warning(const std::string& line) {
  log_warning("{}", line);
}

std::string tiny_model() {
  static const TempFolder folder;
  static const bool made = [] {
    const std::string data(VERNIER_TEST_DATA);
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::create_symlink(data + "/models/llama/" + name, folder.path(name));
    }
    folder.write("tokenizer.json", text_of(data + "/tokenizers/mini-spm-first.json"));
    folder.write("chat_template.jinja",
                 "<s>{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}assistant:");
    return true;
  }();
  return made ? folder.path() : "";
}

}  // namespace vernier::testing
