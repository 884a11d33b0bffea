#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>

#include "api/kernel_fallbacks.h"
#include "api/serve_model.h"
#include "app/commands.h"
#include "app/model_flags.h"
#include "app/number_flags.h"
#include "app/untuned_metrics.h"
#include "grammar/grammar_compiler.h"
#include "server/api_routes.h"
#include "server/http_server.h"
#include "server/page_route.h"
#include "server/warm_up.h"

namespace vernier {
namespace {

constexpr std::string_view kScriptScheme = "script:";

struct ServeFlags {
  ModelFlags model;
  HttpServer::Options http;
  EngineOptions engine;
  std::vector<std::string> names;
  std::vector<std::string> api_keys;
  std::string api_key_file, admin_key, admin_key_file;
  std::string tool_parser = "auto", reasoning_parser = "auto", pooling = "auto", metrics_compat = "all";
  std::string chat_template_file, generation_config = "auto";
  bool no_prefix_cache = false;
  bool deterministic = false;
  bool strict = false;
  int grace_s = 30;
  int header_timeout_s = 10, body_timeout_s = 30, idle_timeout_s = 120, keep_alive_s = 15;
  int64_t max_body_mib = 64;
  double request_timeout_s = 0;
  double stalled_after_s = 60;
};

void add_http_flags(CLI::App& command, ServeFlags& flags) {
  HttpServer::Options& http = flags.http;
  command.add_option("--host", http.host, "Address to listen on; warns where others can reach it without a key")
      ->capture_default_str();
  command.add_option("--port", http.port, "Port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.add_option("--unix-socket", http.unix_socket, "Listens on this path instead");
  command.add_option("--api-key", flags.api_keys, "Key that requests must carry; may be given often");
  command.add_option("--api-key-file", flags.api_key_file, "File of keys, one a line");
  command.add_option("--admin-key", flags.admin_key, "Key of the administrative routes; opens all others too");
  command.add_option("--admin-key-file", flags.admin_key_file, "File whose first line is the admin key");
  command.add_option("--cors-origin", http.cors.origins, "Web origin that may read answers, or *; may be given often");
  command.add_flag("--cors-credentials", http.cors.credentials, "Those origins may send credentials");
  command.add_option("--max-body-mib", flags.max_body_mib, "Largest request body")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--max-connections", http.max_connections, "Open at once")->capture_default_str();
  command.add_option("--io-threads", http.io_threads, "Threads that move bytes")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--worker-threads", http.worker_threads, "Threads that render and tokenise; 0: one for each core")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  const auto seconds = CLI::Range(1, 86400);
  command.add_option("--header-timeout", flags.header_timeout_s, "Seconds for a request's header")
      ->check(seconds)
      ->capture_default_str();
  command.add_option("--body-timeout", flags.body_timeout_s, "Seconds for a request's body")
      ->check(seconds)
      ->capture_default_str();
  command.add_option("--idle-timeout", flags.idle_timeout_s, "Seconds that a connection may be idle")
      ->check(seconds)
      ->capture_default_str();
  command.add_option("--keep-alive", flags.keep_alive_s, "Seconds of silence before a stream's comment")
      ->check(seconds)
      ->capture_default_str();
  command
      .add_option("--request-timeout", flags.request_timeout_s,
                  "Seconds from a request's last byte to the end of its answer, then it fails with 504; 0: no limit")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  command
      .add_option("--stalled-after", flags.stalled_after_s,
                  "Seconds that a step may take before /health answers 503 'stalled'; 0: never")
      ->check(CLI::Range(0.0, 1e7))
      ->capture_default_str();
  command.add_option("--grace", flags.grace_s, "Seconds for running answers after SIGTERM")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
}

void add_serving_flags(CLI::App& command, ServeFlags& flags) {
  EngineOptions& engine = flags.engine;
  command.add_option("--served-model-name", flags.names,
                     "What the model is called; further names are accepted as well");
  command.add_option("--max-num-seqs", engine.max_sequences, "Choices that run at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command.add_option("--max-queue", engine.max_queue, "Choices that wait; one more is answered with 429")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--max-num-batched-tokens", engine.max_step_rows, "Rows of one step at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--kv-bytes", engine.cache_bytes, "Memory of keys and values; 0: four sequences of full length")
      ->transform(byte_size());
  command.add_option("--block-tokens", engine.block_tokens, "Tokens of one cache block")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_flag("--no-prefix-cache", flags.no_prefix_cache, "Computes every prompt from its start");
  command.add_flag("--deterministic", flags.deterministic, "Equal requests get equal answers, with a seed or without");
  command.add_option("--tool-call-parser", flags.tool_parser, "How calls are written: auto, " + output_format_names())
      ->capture_default_str();
  command
      .add_option("--reasoning-parser", flags.reasoning_parser,
                  "auto, none, or how reasoning is written: " + output_format_names())
      ->capture_default_str();
  command
      .add_option("--pooling", flags.pooling,
                  "Embeddings: auto (as the makers say, else last), mean of all tokens, last, or cls: the first")
      ->check(CLI::IsMember({"auto", "mean", "last", "cls"}))
      ->capture_default_str();
  command.add_option("--chat-template", flags.chat_template_file, "File with a template instead of the model's own");
  command
      .add_option(
          "--generation-config", flags.generation_config,
          "Sampling where a request is silent: auto (the makers' advice, else temperature 1 as the API has it) or "
          "openai")
      ->check(CLI::IsMember({"auto", "openai"}))
      ->capture_default_str();
  command.add_flag("--strict-api", flags.strict, "Refuses unknown fields of requests instead of listing them");
  command.add_option("--metrics-compat", flags.metrics_compat, "Names of other servers beside ours: all or none")
      ->check(CLI::IsMember({"all", "none"}))
      ->capture_default_str();
}

Result<std::optional<OutputFormat>> parse_format(const std::string& flag, const std::string& name) {
  if (name == "auto" || name == "none") return std::optional<OutputFormat>{};
  const auto format = find_output_format(name);
  if (!format) return invalid_argument("{} {}: expected auto or one of {}", flag, name, output_format_names());
  return format;
}

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("{} cannot be read", path);
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

/// "smollm2-135m" of a short name, the stem of a file, the name of a folder.
std::string name_of(const std::string& given) {
  std::filesystem::path path = std::filesystem::path(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const bool is_file = path.extension() == ".gguf" || path.extension() == ".json";
  return is_file ? path.stem().string() : path.filename().string();
}

Result<ServeOptions> serve_options(const ServeFlags& flags) {
  ServeOptions options;
  options.names = flags.names;
  options.engine = flags.engine;
  options.engine.prefix_cache = !flags.no_prefix_cache;
  options.engine.context_tokens = flags.model.max_model_len;
  TRY_BIND(options.format, parse_format("--reasoning-parser", flags.reasoning_parser));
  TRY_BIND(options.tool_format, parse_format("--tool-call-parser", flags.tool_parser));
  options.parse_reasoning = flags.reasoning_parser != "none";
  if (flags.pooling == "mean") options.pooling = Pooling::kMean;
  if (flags.pooling == "last") options.pooling = Pooling::kLast;
  if (flags.pooling == "cls") options.pooling = Pooling::kFirst;
  options.deterministic = flags.deterministic;
  options.model_sampling = flags.generation_config == "auto";
  if (!flags.chat_template_file.empty()) {
    TRY_BIND(options.chat_template, read_text_file(flags.chat_template_file));
  }
  return options;
}

void count_fallbacks(MetricRegistry& registry, const std::string& model_name,
                     std::span<const KernelFallback> fallbacks) {
  for (const KernelFallback& fallback : fallbacks) {
    const MetricLabels labels = {{"model_name", model_name},          {"op", fallback.op},
                                 {"phase", fallback.phase},           {"kernel", fallback.kernel},
                                 {"instead_of", fallback.instead_of}, {"reason", fallback.reason}};
    registry
        .counter("vernier_kernel_fallbacks_total",
                 "Weights and layers that run on another kernel than the fastest for them, and why.", labels)
        .add(static_cast<double>(fallback.count));
  }
}

/// A flag with nothing to act on is refused: a script has no weights, and neither it nor an encoder caches numbers.
Status refuse_idle_flags(const ModelFlags& given, bool scripted) {
  const ModelFlags usual;
  std::string_view idle;
  if (given.kv_cache_dtype != usual.kv_cache_dtype) idle = "--kv-cache-dtype";
  if (given.kv_dtype_skip != usual.kv_dtype_skip) idle = "--kv-dtype-skip";
  if (given.kv_scales != usual.kv_scales) idle = "--kv-scales";
  if (given.kv_scale_missing != usual.kv_scale_missing) idle = "--kv-scale-missing";
  if (given.attention != usual.attention) idle = "--attention";
  if (scripted && given.quantization != usual.quantization) idle = "--quantization";
  if (idle.empty()) return {};
  return invalid_argument("{} changes nothing about {}; leave it out", idle, scripted ? "a script" : "an encoder");
}

Result<std::shared_ptr<const ServedModel>> open_model(const ServeFlags& flags, MetricRegistry& registry) {
  TRY_BIND(ServeOptions options, serve_options(flags));
  const bool scripted = flags.model.model.starts_with(kScriptScheme);
  const std::string given = scripted ? flags.model.model.substr(kScriptScheme.size()) : flags.model.model;
  if (options.names.empty()) options.names = {name_of(given)};
  if (!scripted) {
    TRY_BIND(const bool encoder, names_encoder(flags.model));
    if (encoder) {
      TRY_STATUS(refuse_idle_flags(flags.model, scripted));
      TRY_BIND(std::shared_ptr<LoadedEncoder> model, load_encoder_for(flags.model, flags.deterministic));
      const std::vector<KernelFallback> fallbacks = kernel_fallbacks(*model);
      TRY_STATUS(flags.model.check_fallbacks(fallbacks));
      count_fallbacks(registry, options.names.front(), fallbacks);
      count_untuned(registry, options.names.front(), {model, &model->backend()});
      return serve_encoder(std::move(model), options);
    }
    TRY_BIND(std::shared_ptr<LoadedModel> model, load_for(flags.model, flags.deterministic));
    TRY_BIND(options.engine.context_tokens, flags.model.context_tokens(model->decoder().spec()));
    TRY_BIND(options.cache, flags.model.cache_options());
    TRY_BIND(const CachePlan cache, model->plan_cache(options.cache));
    const std::vector<KernelFallback> fallbacks = kernel_fallbacks(*model, cache.layers);
    TRY_STATUS(flags.model.check_fallbacks(fallbacks));
    count_fallbacks(registry, options.names.front(), fallbacks);
    count_untuned(registry, options.names.front(), {model, &model->backend()});
    return serve_model(std::move(model), options);
  }
  TRY_STATUS(refuse_idle_flags(flags.model, scripted));
  TRY_BIND(std::string text, read_text_file(given));
  TRY_BIND(ScriptFile file, ScriptFile::parse(text));
  TRY_BIND(std::string tokenizer, find_model(file.tokenizer));
  return serve_script(file, tokenizer, options);
}

Result<HttpServer::Options> http_options(const ServeFlags& flags, MetricRegistry& metrics) {
  HttpServer::Options http = flags.http;
  for (const std::string& key : flags.api_keys) {
    if (key.empty()) return invalid_argument("--api-key is empty; it would open the server that it was meant to close");
    http.api_keys.emplace_back(key);
  }
  if (!flags.api_key_file.empty()) {
    TRY_BIND(std::vector<Secret> keys, read_key_file(flags.api_key_file));
    http.api_keys.insert(http.api_keys.end(), keys.begin(), keys.end());
  }
  if (!flags.admin_key.empty()) http.admin_key = Secret(flags.admin_key);
  if (!flags.admin_key_file.empty()) {
    TRY_BIND(std::vector<Secret> keys, read_key_file(flags.admin_key_file));
    http.admin_key = keys.front();
  }
  http.max_body_bytes = static_cast<size_t>(flags.max_body_mib) << 20;
  http.header_timeout = std::chrono::seconds(flags.header_timeout_s);
  http.body_timeout = std::chrono::seconds(flags.body_timeout_s);
  http.idle_timeout = std::chrono::seconds(flags.idle_timeout_s);
  http.keep_alive_after = std::chrono::seconds(flags.keep_alive_s);
  http.metrics = &metrics;
  return http;
}

ApiOptions api_options(const ServeFlags& flags) {
  ApiOptions api;
  api.strict_fields = flags.strict;
  api.version = VERNIER_VERSION;
  api.stalled_after = std::chrono::nanoseconds(static_cast<int64_t>(flags.stalled_after_s * 1e9));
  api.request_timeout = std::chrono::nanoseconds(static_cast<int64_t>(flags.request_timeout_s * 1e9));
  return api;
}

/// A line for whoever runs the server; no warning, and there at the default level.
template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() > LogLevel::kWarning) return;
  fmt::print(stderr, "{}\n", fmt::format(format, std::forward<Args>(args)...));
}

Result<std::unique_ptr<HttpServer>> start_listening(const ServeFlags& flags, MetricRegistry& registry, Router router) {
  TRY_BIND(HttpServer::Options http, http_options(flags, registry));
  Result<std::unique_ptr<HttpServer>> server = HttpServer::start(std::move(http), std::move(router));
  if (server.ok() || server.error().code != ErrorCode::kUnavailable || !flags.http.unix_socket.empty()) return server;
  Error error = server.error();
  error.message += "; --port N takes another port, --port 0 any free one";
  return error;
}

void tell_defaults(const ServedModel& model) {
  if (!model.generates) return;
  const SamplingParams& sampling = model.sampling;
  tell("where a request is silent: temperature {:g}, top_p {:g}, top_k {}; repetition_penalty {:g}",
       sampling.temperature, sampling.top_p, sampling.top_k > 0 ? std::to_string(sampling.top_k) : "off",
       sampling.repetition_penalty);
}

/// A stop signal, taken by a thread of its own from the first moment: one that comes before anything is served ends the
/// program there, since a model may take minutes to load.
class StopRequest {
 public:
  explicit StopRequest(const StopSignals& signals) {
    std::thread([signals, state = state_] {
      const int signal = signals.wait();
      if (!state->serving) std::_Exit(128 + signal);
      state->signal.set_value(signal);
      const int second = signals.wait_again();
      tell("signal {}: what is not answered yet is cut off", second);
      state->second = second;
      state->hurry = true;
      while (true) pause();  // here the third one, which nothing blocks any more, finds the program
    }).detach();
  }
  /// From now on one is waited for.
  void serve() { state_->serving = true; }
  int wait() { return state_->signal.get_future().get(); }
  /// A second one came: answers have no more time.
  const std::atomic<bool>& hurry() const { return state_->hurry; }
  /// Ends the program as that one would have.
  void end_as_told() const {
    if (state_->hurry) ::kill(::getpid(), state_->second);
  }

 private:
  struct State {
    std::atomic<bool> serving = false;
    std::promise<int> signal;
    std::atomic<int> second = 0;
    std::atomic<bool> hurry = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

Status serve(const ServeFlags& flags) {
  StopRequest stop{StopSignals()};
  MetricRegistry registry;
  std::unique_ptr<ServerMetrics> metrics;  // outlives the model, whose engine delivers to the end
  auto context = std::make_shared<ApiContext>(nullptr, api_options(flags), registry, nullptr);
  context->readiness.set_stage(Readiness::Stage::kLoading);
  Router router;
  add_api_routes(router, context);
  add_page_routes(router);
  TRY_BIND(std::unique_ptr<HttpServer> server, start_listening(flags, registry, std::move(router)));
  tell("{} listens and answers 503 while {} is loaded", server->address(), flags.model.model);

  TRY_BIND(context->model, open_model(flags, registry));
  const ServedModel& model = *context->model;
  metrics = std::make_unique<ServerMetrics>(registry, model, flags.metrics_compat == "all");
  context->metrics = metrics.get();
  context->readiness.set_stage(Readiness::Stage::kWarming);
  warm_up(model, context->readiness);
  context->readiness.set_stage(Readiness::Stage::kReady);
  stop.serve();
  fmt::print("{} is served at {}, {} tokens of context\n", model.name(), server->address(), model.context_tokens());
  std::fflush(stdout);
  tell_defaults(model);
  const int signal = stop.wait();
  tell("signal {}: no new requests; {} under way have {} s", signal, server->requests_under_way(), flags.grace_s);
  if (model.grammars != nullptr) model.grammars->stop();  // nothing that still compiles would begin to answer
  const bool whole = server->drain(std::chrono::seconds(flags.grace_s), &stop.hurry());
  tell("stopped; {}", whole ? "every answer was given whole" : "some answers were cut off, with an error");
  stop.end_as_told();
  server.reset();
  return {};
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve a model over HTTP, with OpenAI's API; script:FILE plays a script");
  flags->model.add_to(*command);
  flags->model.add_fallback_flag(*command);
  flags->model.tune.add_to(*command);
  add_http_flags(*command, *flags);
  add_serving_flags(*command, *flags);
  set_work(*command, [flags] { return serve(*flags); });
}

}  // namespace vernier
