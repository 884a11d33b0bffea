#include "app/foreign_flags.h"

namespace vernier {
namespace {

constexpr std::string_view kOneDevice = "not needed: all layers run on one device; --backend and --device choose it";
constexpr std::string_view kOneProcess = "not built: one process on one machine runs the whole model";
constexpr std::string_view kRanks =
    "not built: one process on one machine runs the whole model; vernier tune MODEL --tp N tunes for ranks to come";
constexpr std::string_view kAsStored =
    "not needed: weights stay in the numbers they are stored in; --numerics exact computes in float32";
constexpr std::string_view kNoCode = "not needed: no code of a checkpoint is ever run";
constexpr std::string_view kTemplate = "not needed: the model's chat template is always used; --raw goes without";
constexpr std::string_view kNoLora = "not built: adapters are not applied; merge them into the checkpoint";
constexpr std::string_view kLog = "use --log-level info or debug";
constexpr std::string_view kNoLog = "use --log-level error or off";
constexpr std::string_view kAlways = "not needed: always on";
constexpr std::string_view kMapped = "not needed: files are mapped, and each weight is packed once";
constexpr std::string_view kChat = "use vernier chat for a conversation, vernier run for one answer";
constexpr std::string_view kFetch =
    "not built: nothing is downloaded; give a file, a folder or a name that tools/fetch_model knows";
constexpr std::string_view kField =
    "a field of a request to vernier serve: response_format, structured_outputs, regex or grammar";
constexpr std::string_view kTextOnly = "not built: text only";

constexpr struct {
  std::string_view flag;
  std::string_view advice;
} kForeign[] = {
    {"-ngl", kOneDevice},
    {"--gpu-layers", kOneDevice},
    {"--n-gpu-layers", kOneDevice},
    {"-ncmoe", kOneDevice},
    {"--n-cpu-moe", kOneDevice},
    {"-ot", kOneDevice},
    {"--override-tensor", kOneDevice},
    {"--cpu-offload-gb", kOneDevice},
    {"--device", kOneDevice},
    {"-dev", kOneDevice},
    {"--main-gpu", kOneDevice},
    {"-mg", kOneDevice},
    {"--tensor-split", kOneProcess},
    {"-ts", kOneProcess},
    {"--split-mode", kOneProcess},
    {"-sm", kOneProcess},
    {"-tp", kRanks},
    {"--tp", kRanks},
    {"--tp-size", kRanks},
    {"--tensor-parallel-size", kRanks},
    {"-pp", kOneProcess},
    {"--pp-size", kOneProcess},
    {"--pipeline-parallel-size", kOneProcess},
    {"--dp-size", kOneProcess},
    {"--data-parallel-size", kOneProcess},
    {"--ep-size", kOneProcess},
    {"--enable-expert-parallel", kOneProcess},
    {"--rpc", kOneProcess},
    {"--dtype", kAsStored},
    {"--load-format", "not needed: the format is read from the files"},
    {"--quantization", "not needed here: the quantisation is read from the checkpoint"},
    {"-q", "not needed: the quantisation is read from the checkpoint"},
    {"--trust-remote-code", kNoCode},
    {"--jinja", kTemplate},
    {"--no-jinja", "use --raw for a prompt without the chat template"},
    {"--lora", kNoLora},
    {"--enable-lora", kNoLora},
    {"--lora-modules", kNoLora},
    {"--lora-paths", kNoLora},
    {"-v", kLog},
    {"--verbose", kLog},
    {"--log-verbosity", kLog},
    {"--uvicorn-log-level", kLog},
    {"--log-requests", kLog},
    {"--log-disable", kNoLog},
    {"--disable-log-requests", kNoLog},
    {"--disable-log-stats", kNoLog},
    {"--enable-prefix-caching", "not needed: on; --no-prefix-cache turns it off"},
    {"--cache-prompt", "not needed: on; --no-prefix-cache turns it off"},
    {"--enable-chunked-prefill", kAlways},
    {"--cont-batching", kAlways},
    {"-cb", kAlways},
    {"--flash-attn", kAlways},
    {"-fa", kAlways},
    {"--enable-auto-tool-choice", kAlways},
    {"--enable-metrics", "not needed: always on, at GET /metrics"},
    {"--metrics", "not needed: always on, at GET /metrics"},
    {"--embedding", "not needed: always on, at POST /v1/embeddings"},
    {"--embeddings", "not needed: always on, at POST /v1/embeddings"},
    {"--enforce-eager", "not needed: nothing is compiled or captured at the start"},
    {"--swap-space", "not built: a sequence that does not fit is computed again"},
    {"--mlock", kMapped},
    {"--no-mmap", kMapped},
    {"--numa", "not built: numactl decides where the program runs"},
    {"--cache-type-v", "use --kv-cache-dtype: keys and values share one type"},
    {"-ctv", "use --kv-cache-dtype: keys and values share one type"},
    {"-cnv", kChat},
    {"--conversation", kChat},
    {"-no-cnv", kChat},
    {"--no-conversation", kChat},
    {"-i", kChat},
    {"--interactive", kChat},
    {"--no-display-prompt", "not needed: the prompt is never printed"},
    {"-f", "give the file on standard input: vernier run MODEL < FILE"},
    {"--file", "give the file on standard input: vernier run MODEL < FILE"},
    {"-hf", kFetch},
    {"-hfr", kFetch},
    {"--hf-repo", kFetch},
    {"--hf-file", kFetch},
    {"--hf-token", kFetch},
    {"-mu", kFetch},
    {"--model-url", kFetch},
    {"--revision", kFetch},
    {"--download-dir", "use --home for the folder of models"},
    {"--grammar", kField},
    {"--grammar-file", kField},
    {"--json-schema", kField},
    {"-j", kField},
    {"--guided-decoding-backend", "not needed: there is one, and each request may use it"},
    {"--mmproj", kTextOnly},
    {"--image", kTextOnly},
    {"--limit-mm-per-prompt", kTextOnly},
    {"--tokenizer", "not built: the tokenizer.json of the model's folder is used; copy another one there"},
    {"--tokenizer-path", "not built: the tokenizer.json of the model's folder is used; copy another one there"},
    {"--ssl-keyfile", "not built: plain HTTP; put a proxy that speaks TLS before it"},
    {"--ssl-certfile", "not built: plain HTTP; put a proxy that speaks TLS before it"},
    {"--ssl-key-file", "not built: plain HTTP; put a proxy that speaks TLS before it"},
    {"--ssl-cert-file", "not built: plain HTTP; put a proxy that speaks TLS before it"},
};

}  // namespace

std::optional<std::string_view> foreign_flag_advice(std::string_view flag) {
  for (const auto& known : kForeign) {
    if (known.flag == flag) return known.advice;
  }
  return std::nullopt;
}

}  // namespace vernier
