#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run_program.h"
#include "testing/models.h"
#include "testing/temp_folder.h"

namespace vernier {
namespace {

using testing::bytes_of;
using testing::Outcome;
using testing::tiny_model;
using testing::vernier;

TEST(EndToEnd, SaysWithItsExitCodeWhatKindOfErrorItWas) {
  testing::TempFolder folder;
  EXPECT_EQ(vernier("--version").exit_code, 0);
  EXPECT_EQ(vernier("doctor --no-such-flag").exit_code, 2);
  EXPECT_EQ(vernier("inspect no-such-model").exit_code, 3);
  EXPECT_EQ(vernier("inspect " + folder.write("cut.gguf", std::string("GGUF\3\0\0\0\0\0", 10))).exit_code, 4);
  folder.write("later/config.json", R"({"model_type": "olmoe", "architectures": ["OlmoeForCausalLM"]})");
  const Outcome refused = vernier("run " + folder.path("later") + " hello", true);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_LT(refused.exit_code, 128) << "ended by a signal: " << refused.output;
}

TEST(EndToEnd, HostileInputIsRefusedWithAMessage) {
  testing::TempFolder folder;
  std::string model = bytes_of(tiny_model("llama") + "/model.safetensors");
  folder.write("cut/config.json", bytes_of(tiny_model("llama") + "/config.json"));
  folder.write("cut/model.safetensors", model.substr(0, model.size() / 2));
  folder.write("fake.gguf", "no model at all");
  folder.write("notes.txt", "no model at all");
  folder.write("empty/notes.txt", "");
  ASSERT_EQ(std::system(("mkfifo " + folder.path("pipe.gguf")).c_str()), 0);
  for (const char* command : {"inspect", "explain", "plan", "run", "chat", "bench"}) {
    for (const char* name : {"cut", "fake.gguf", "notes.txt", "empty", "pipe.gguf", "\xff\xfe"}) {
      const char* prompt = std::string(command) == "run" ? " hi" : "";
      const std::string path = " '" + folder.path(name) + "'";
      const Outcome outcome = vernier(command + path + prompt + " </dev/null", true);
      EXPECT_GE(outcome.exit_code, 2) << command << " " << name << ": " << outcome.output;
      EXPECT_LE(outcome.exit_code, 5) << command << " " << name << ": " << outcome.output;
      EXPECT_NE(outcome.output.find("error: "), std::string::npos) << command << " " << name;
    }
  }
  EXPECT_EQ(vernier("plan " + tiny_model("llama") + " --max-model-len 2000000000").exit_code, 2);
  EXPECT_EQ(vernier("plan " + tiny_model("llama") + " --max-model-len -5").exit_code, 2);
  EXPECT_EQ(vernier("chat " + tiny_model("llama") + " --json </dev/null").exit_code, 2);
}

TEST(EndToEnd, AFullDiskIsNoSuccess) {
  EXPECT_EQ(vernier("doctor >/dev/full", true).exit_code, 1);
  EXPECT_EQ(vernier("inspect --json " + tiny_model("llama") + " >/dev/full", true).exit_code, 1);
}

// Lines for programs go through a stream of their own, which the check of standard output did not see.
TEST(EndToEnd, AFullDiskIsNoSuccessForLinesEither) {
  const std::string tokenizer = std::string(VERNIER_TEST_DATA) + "/tokenizers/mini-merges.json";
  testing::TempFolder folder;
  const std::string lines = folder.write("lines", "{\"text\":\"a\"}\n");
  EXPECT_EQ(vernier("tokenize " + tokenizer + " --jsonl >/dev/full <" + lines).exit_code, 1);
}

TEST(EndToEnd, ARefusedArgumentSaysWhatWasExpected) {
  const std::string model = tiny_model("llama");
  const std::pair<std::string, const char*> cases[] = {
      {"run " + model + " ''", "the prompt is empty; only with --raw"},
      {"run " + model + " hi there", "goes in quotes"},
      {"run '' hi", "MODEL is empty"},
      {"run " + model + " hi -p there", "-p"},
      {"logits", "MODEL, --ids and --out are required"},
      {"logits " + model + " --ids none.json --out x", "'[[1, 2], [3]]'"},
      {"run " + model + " hi --seed -1", "--seed"},
      {"serve " + model + " --kv-bytes 99999999999999999999", "--kv-bytes"},
      {"serve " + model + " --port 99999", "--port 99999: expected 0 to 65535"},
  };
  for (const auto& [command, message] : cases) {
    const Outcome outcome = vernier(command + " </dev/null", true);
    EXPECT_NE(outcome.output.find(message), std::string::npos) << command << "\n" << outcome.output;
    EXPECT_EQ(outcome.exit_code, command.find("none.json") != std::string::npos ? 3 : 2) << command;
  }
}

// Every tensor was "unused", as no model had asked for one when the report was made.
TEST(EndToEnd, InspectTellsWhatEachTensorIsUsedFor) {
  const Outcome whole = vernier("inspect " + tiny_model("llama"));
  ASSERT_EQ(whole.exit_code, 0);
  EXPECT_EQ(whole.output.find("unused"), std::string::npos) << whole.output;
  EXPECT_NE(whole.output.find(", matrix model."), std::string::npos) << whole.output;
}

TEST(EndToEnd, RenderTakesAModelForItsTemplate) {
  testing::TempFolder folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    folder.write(std::string("m/") + name, bytes_of(tiny_model("llama") + "/" + name));
  }
  folder.write("m/tokenizer_config.json",
               R"({"chat_template": "{% for m in messages %}[{{ m.content }}]{% endfor %}"})");
  const std::string messages = folder.write("c.json", R"([{"role": "user", "content": "Hi"}])");
  const Outcome outcome = vernier("render " + folder.path("m") + " " + messages, true);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "[Hi]");
  EXPECT_EQ(vernier("render " + tiny_model("llama") + " " + messages).exit_code, 3) << "it has none";
}

TEST(EndToEnd, BenchTellsWhatItMeasuresNow) {
  const Outcome outcome =
      vernier("bench " + tiny_model("llama") + " --rounds 1 --prefill 4 --decode 2 --depth 4", true);
  for (const char* line : {"loading ", "round 1 of 1: limits", "round 1 of 1: prefill 4\n", "decode 2 at 4\n"}) {
    EXPECT_NE(outcome.output.find(line), std::string::npos) << outcome.output;
  }
}

// What a kernel multiplies in float32 or bf16 is measured by the rate of those operations, not by that of int8.
TEST(EndToEnd, BenchDividesByTheLimitThatItsKernelsCanReach) {
  const std::string shape = " --rounds 1 --prefill 16 --decode 2 --depth 4";
  const auto limit_of = [&](const std::string& flags) {
    const Outcome outcome = vernier("bench " + flags + shape);
    const size_t row = outcome.output.find("prefill 16 "), percent = outcome.output.find(" % ", row);
    if (row == std::string::npos || percent == std::string::npos) return outcome.output;
    return outcome.output.substr(percent + 3, outcome.output.find_first_of(" \n", percent + 3) - percent - 3);
  };
  EXPECT_EQ(limit_of(tiny_model("llama-fp8-block") + " --numerics exact"), "f32");
  EXPECT_EQ(limit_of(tiny_model("llama") + " --numerics exact"), "f32");
  EXPECT_EQ(limit_of(tiny_model("llama") + " --quantization q8_0"), "int8");
  const std::string kernels = vernier("explain " + tiny_model("llama")).output;
  const bool has_bf16 = kernels.find("qkv: bf16_tile") != std::string::npos;
  EXPECT_EQ(limit_of(tiny_model("llama")), has_bf16 ? "bf16" : "f32") << kernels;
}

TEST(EndToEnd, ServeNamesTheFlagThatStandsInItsWay) {
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(taken, raw, size), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, raw, &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const Outcome refused = vernier("serve " + tiny_model("llama") + " --port " + port, true);
  ::close(taken);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.output.find("--port 0 any free one"), std::string::npos) << refused.output;
}

TEST(EndToEnd, ACacheThatHoldsNothingNamesItsFlag) {
  const auto path = testing::model_file("smollm2-135m.gguf");
  if (!path) GTEST_SKIP() << testing::missing_model("smollm2-135m");
  const Outcome outcome = vernier("serve " + *path + " --port 0 --kv-bytes 1", true);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("(--kv-bytes), expected at least"), std::string::npos) << outcome.output;
}

TEST(EndToEnd, TokenIdsMayStandOnTheCommandLine) {
  testing::TempFolder folder;
  const std::string out = folder.path("out.safetensors");
  const Outcome outcome = vernier("logits " + tiny_model("llama") + " --ids '[[1, 2], [3]]' --out " + out, true);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(EndToEnd, TokenizesBothWaysAndRendersOverJsonLines) {
  const std::string tokenizer = std::string(VERNIER_TEST_DATA) + "/tokenizers/mini-merges.json";
  testing::TempFolder folder;
  const std::string texts = folder.write("texts", "{\"text\":\"Hello\"}\n{\"hex\":\"48ff\"}\n");
  const Outcome ids = vernier("tokenize " + tokenizer + " --jsonl <" + texts);
  ASSERT_EQ(ids.exit_code, 0);
  EXPECT_EQ(std::count(ids.output.begin(), ids.output.end(), '\n'), 2);
  EXPECT_EQ(vernier("detokenize " + tokenizer + " 999999").exit_code, 2);
  const Outcome text = vernier("detokenize " + tokenizer + " --jsonl <" + folder.write("ids", ids.output));
  ASSERT_EQ(text.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(text.output.substr(0, text.output.find('\n'))).at("text"), "Hello");
  const std::string template_line = R"({"template": "{{ a }}-{{ a | upper }}", "context": {"a": "x"}})";
  const Outcome rendered = vernier("render --jsonl <" + folder.write("templates", template_line + "\n"));
  EXPECT_EQ(nlohmann::json::parse(rendered.output).at("text"), "x-X");
}

/// The int32 numbers of one tensor of a safetensors file.
std::vector<int32_t> integers_of(const std::string& path, const std::string& tensor) {
  const std::string bytes = bytes_of(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const auto offsets = nlohmann::json::parse(bytes.substr(8, header_bytes)).at(tensor).at("data_offsets");
  const size_t begin = offsets.at(0);
  const size_t end = offsets.at(1);
  std::vector<int32_t> numbers((end - begin) / sizeof(int32_t));
  std::memcpy(numbers.data(), bytes.data() + 8 + header_bytes + begin, end - begin);
  return numbers;
}

TEST(EndToEnd, ChunksDoNotChangeWhatIsGenerated) {
  testing::TempFolder folder;
  const std::string ids =
      folder.write("ids.json", "[[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]]");
  for (const char* model : {"llama", "gemma3"}) {
    std::vector<int32_t> generated[2];
    for (int run : {0, 1}) {
      const std::string out = folder.path("out.safetensors");
      const Outcome outcome =
          vernier("logits " + tiny_model(model) + " --ids " + ids + " --out " + out +
                      " --numerics exact --kv-cache-dtype f32 --generate 6 --chunk " + (run == 0 ? "1" : "7"),
                  true);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
      generated[run] = integers_of(out, "greedy.0");
    }
    EXPECT_EQ(generated[0].size(), 6u);
    EXPECT_EQ(generated[0], generated[1]) << model;
  }
}

// ENGINE-11: a request behind the cached blocks of another answers as alone, with an FP8 cache and on either way to
// read it.
TEST(EndToEnd, ACachedPrefixDoesNotChangeLogits) {
  testing::TempFolder folder;
  const std::string ids =
      folder.write("ids.json", "[[11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26]]");
  for (const char* model : {"kv-llama", "kv-gpt-oss-window"}) {
    std::string written[3];
    const char* ways[] = {"--attention paged --chunk 64", "--attention paged --cached 9 --chunk 5",
                          "--attention split-roundtrip --cached 9"};
    for (size_t i = 0; i < 3; ++i) {
      const std::string out = folder.path("out.safetensors");
      const Outcome outcome = vernier("logits --json " + tiny_model(model) + " --ids " + ids + " --out " + out +
                                      " --generate 4 --kv-cache-dtype fp8 " + ways[i]);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
      EXPECT_EQ(nlohmann::json::parse(outcome.output).at("cached_tokens"), i == 0 ? 0 : 9) << model;
      written[i] = bytes_of(out);
    }
    EXPECT_EQ(written[1], written[0]) << model;
    EXPECT_EQ(written[2], written[0]) << model;
  }
}

TEST(EndToEnd, ExplainAndInspectShowEachCacheScaleWithItsOrigin) {
  const std::string model = tiny_model("kv-gemma3-window");
  for (const std::string& command : {"explain " + model, "inspect " + model}) {
    const Outcome outcome = vernier(command);
    ASSERT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.output.find("fp8_e4m3"), std::string::npos) << command;
    EXPECT_NE(outcome.output.find("layers.1.self_attn.k_proj.k_scale"), std::string::npos) << command;
    EXPECT_NE(outcome.output.find("layers.1.self_attn.v_proj.v_scale"), std::string::npos) << command;
    EXPECT_EQ(vernier(command + " --kv-scales none.json --kv-cache-dtype int8").exit_code, 5) << command;
  }
  const Outcome skipped = vernier("inspect --json " + model);
  EXPECT_EQ(nlohmann::json::parse(skipped.output).at("cache").at("layers").at(0).at("stored"), "fp8_e4m3");
  EXPECT_EQ(vernier("explain " + model + " --kv-scale-missing error").exit_code, 0);
  EXPECT_EQ(vernier("explain " + tiny_model("llama") + " --kv-cache-dtype fp8 --kv-scale-missing error").exit_code, 2);
}

TEST(EndToEnd, DoctorTellsAsJson) {
  const Outcome outcome = vernier("doctor --json");
  ASSERT_EQ(outcome.exit_code, 0);
  const nlohmann::json report = nlohmann::json::parse(outcome.output);
  EXPECT_GE(report.at("logical_cores").get<int>(), 1);
  EXPECT_EQ(report.at("instruction_sets").at(0), "baseline");
  for (const nlohmann::json& withheld : report.at("withheld_instruction_sets")) {
    EXPECT_EQ(std::ranges::count(report.at("instruction_sets"), withheld), 0) << withheld;
  }
  EXPECT_FALSE(report.at("findings").empty());
}

TEST(EndToEnd, ARealModelAnswersTheSameForTheSameSeed) {
  const auto path = testing::model_file("smollm2-135m.gguf");
  if (!path) GTEST_SKIP() << testing::missing_model("smollm2-135m");
  const std::string command = "run " + *path + " 'Write one sentence about the sea.' --max-tokens 24 --seed ";
  const Outcome first = vernier(command + "1");
  ASSERT_EQ(first.exit_code, 0);
  EXPECT_GT(first.output.size(), 20u) << first.output;
  EXPECT_EQ(vernier(command + "1").output, first.output);
  EXPECT_NE(vernier(command + "2").output, first.output);
}

TEST(EndToEnd, CacheScalesMadeOfTextAreReadBack) {
  const auto path = testing::model_file("smollm2-135m.gguf");
  if (!path) GTEST_SKIP() << testing::missing_model("smollm2-135m");
  testing::TempFolder folder;
  const std::string scales = folder.path("scales.json"), make = "calibrate " + *path + " --tokens 48 --out " + scales;
  const Outcome made = vernier(make + " --granularity head --json");
  ASSERT_EQ(made.exit_code, 0) << made.output;
  EXPECT_EQ(nlohmann::json::parse(made.output).at("layers").at(29).at("k_scale").size(), 3u);
  EXPECT_EQ(vernier(make).exit_code, 2) << "what stands there is not replaced unasked";
  const std::string use =
      "run " + *path + " Hello --max-tokens 4 --seed 1 --kv-scales " + scales + " --kv-cache-dtype ";
  EXPECT_EQ(vernier(use + "fp8_e4m3").exit_code, 0);
  EXPECT_EQ(vernier(use + "fp8_e5m2").exit_code, 2);
}

TEST(EndToEnd, WhatIsReadIsNeverReplaced) {
  testing::TempFolder folder;
  std::filesystem::copy(tiny_model("llama"), folder.path("model"), std::filesystem::copy_options::recursive);
  std::filesystem::create_hard_link(folder.path("model/model.safetensors"), folder.path("link"));
  const std::string ids = folder.write("ids.json", "[[1, 2]]"), model = " " + folder.path("model") + " ";
  for (const std::string& words :
       {"logits" + model + "--ids [[1]] --out " + folder.path("link"),
        "logits" + model + "--ids " + ids + " --out " + ids,
        "calibrate" + model + "--overwrite --out " + folder.path("model/model.safetensors")}) {
    const Outcome outcome = vernier(words, true);
    EXPECT_NE(outcome.output.find("would replace what is read"), std::string::npos) << words << ": " << outcome.output;
  }
  EXPECT_EQ(vernier("inspect" + model).exit_code, 0);
}

// Whether the result can be written is known before the model is read, not after a run of hours.
TEST(EndToEnd, WhatCannotBeWrittenIsSaidFirst) {
  testing::TempFolder folder;
  folder.write("scales.json.partial/in_the_way", "");
  folder.write("taken/in_the_way", "");
  const std::string nowhere = folder.path("no/such/out"), model = " " + folder.path("no-model") + " ";
  for (const std::string& words :
       {"calibrate" + model + "--out " + folder.path("scales.json"), "logits" + model + "--ids [[1]] --out " + nowhere,
        "bench serve --url http://127.0.0.1:1 --plot " + folder.path("taken")}) {
    const Outcome outcome = vernier(words, true);
    EXPECT_NE(outcome.output.find("cannot write " + folder.path()), std::string::npos)
        << words << ": " << outcome.output;
    EXPECT_NE(outcome.exit_code, 0) << words;
  }
}

TEST(EndToEnd, ExplainNamesAKernelAndItsReasons) {
  const Outcome outcome = vernier("explain " + tiny_model("qwen3"));
  ASSERT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("linear"), std::string::npos) << outcome.output.substr(0, 400);
}

TEST(EndToEnd, ExplainTellsOfEqualLayersOnceAndOfEachLayerOfJson) {
  const std::string text = vernier("explain " + tiny_model("llama")).output;
  const size_t at = text.find("qkv: ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.find("qkv: ", at + 1), std::string::npos) << text;
  EXPECT_NE(text.find("layers 0-2 qkv: "), std::string::npos) << text;
  EXPECT_NE(text.find("model.layers.*.self_attn.q_proj"), std::string::npos) << text;
  const std::string one = vernier("explain --layer 1 " + tiny_model("llama")).output;
  EXPECT_NE(one.find("model.layers.1.self_attn.q_proj"), std::string::npos) << one;
  int listed = 0;
  for (const auto& line : nlohmann::json::parse(vernier("explain --json " + tiny_model("llama")).output)) {
    listed += line.at("op") == "qkv" ? 1 : 0;
  }
  EXPECT_EQ(listed, 3);
}

/// Kernel of the first line of `explain --json` whose op is this.
std::string kernel_on(const std::string& model, const std::string& flags, const std::string& op) {
  const Outcome outcome = vernier("explain --json " + tiny_model(model) + " --device-features " + flags);
  EXPECT_EQ(outcome.exit_code, 0) << model << " " << flags;
  if (outcome.exit_code != 0) return "";
  for (const nlohmann::json& line : nlohmann::json::parse(outcome.output)) {
    if (line.at("op") == op) return line.at("kernel").get<std::string>();
  }
  return "no such op";
}

TEST(EndToEnd, ExplainSpeaksOfChipsThatAreNotHere) {
  EXPECT_EQ(kernel_on("gpt-oss-mxfp4", "sm100", "experts_gate_up"), "experts_mxfp4_tensor_memory");
  EXPECT_EQ(kernel_on("gpt-oss-mxfp4", "sm90", "experts_gate_up"), "experts_w4a16");
  EXPECT_EQ(kernel_on("qwen3-modelopt-mxfp8", "sm120", "qkv"), "scaled_mxfp8");
  EXPECT_EQ(kernel_on("qwen3-fp8-block-64x32", "sm90", "down"), "block_fp8");
  testing::TempFolder folder;
  const std::string own =
      folder.write("chip.json", R"({"name": "own", "capabilities": ["bf16_mma"], "shared_bytes": 1})");
  EXPECT_EQ(kernel_on("qwen3-modelopt-mxfp8", own, "qkv"), "w8a16");
  const std::string wrong = folder.write("wrong.json", R"({"capabilities": ["sm90"]})");
  EXPECT_EQ(vernier("explain " + tiny_model("qwen3") + " --device-features " + wrong).exit_code, 2);
  const Outcome refused = vernier("explain " + tiny_model("qwen3") + " --device-features sm90 --kernel w4a16", true);
  EXPECT_NE(refused.output.find("w4a16 cannot serve linear"), std::string::npos) << refused.output;
}

// Two attentions to each layer that is stored: two caches, which inspect tells and explain numbers.
TEST(EndToEnd, EveryAttentionOfLongCatHasItsCache) {
  const Outcome told = vernier("inspect " + tiny_model("longcat-flash"));
  EXPECT_EQ(told.exit_code, 0);
  for (const char* part : {"4 layers, 2 to each that is stored", "2 of 4 layers: 3 of 12 experts of width 48",
                           "4 of them identity", "layer 0 to 3:"}) {
    EXPECT_NE(told.output.find(part), std::string::npos) << part << " in " << told.output;
  }
  const nlohmann::json all = nlohmann::json::parse(vernier("inspect --json " + tiny_model("longcat-flash")).output);
  EXPECT_EQ(all.at("cache").at("layers").size(), 4u);
  const Outcome explained = vernier("explain --json --layer 3 " + tiny_model("longcat-flash"));
  EXPECT_EQ(explained.exit_code, 0);
  EXPECT_NE(explained.output.find("model.layers.1.mlps.1.down_proj"), std::string::npos) << explained.output;
}

TEST(EndToEnd, InspectShowsWhatRanksWouldHave) {
  const Outcome outcome = vernier("inspect --json " + tiny_model("gpt-oss-mxfp4") + " --shards 4");
  ASSERT_EQ(outcome.exit_code, 0);
  const nlohmann::json all = nlohmann::json::parse(outcome.output);
  const nlohmann::json& cut = all.at("cuts").at(0);
  ASSERT_EQ(cut.at("ranks").size(), 4u);
  // 96 columns are three groups of 32, padded to 128 each; the fourth rank has none.
  EXPECT_EQ(cut.at("ranks").at(0).at("expert_width"), 32);
  EXPECT_EQ(cut.at("ranks").at(3).at("expert_width"), 0);
  EXPECT_GT(cut.at("ranks").at(0).at("padding_bytes").get<int64_t>(), 0);
  EXPECT_TRUE(cut.at("kv_heads_repeat").get<bool>());
  EXPECT_EQ(all.at("cuts").at(1).at("ranks").at(0).at("experts"), 1);
  const Outcome refused = vernier("inspect " + tiny_model("gpt-oss-mxfp4") + " --shards 3", true);
  EXPECT_EQ(refused.exit_code, 5) << refused.output;
  EXPECT_NE(refused.output.find("the nearest numbers of ranks that work: 2, 4"), std::string::npos) << refused.output;
  EXPECT_EQ(cut.at("cache_copies"), 2);
  EXPECT_GT(cut.at("ranks").at(1).at("repeated_bytes").get<int64_t>(), 0);
  EXPECT_EQ(cut.at("ranks").at(2).at("repeated_bytes"), 0);
  // Four query heads on two key-value heads, for eight: half of the ranks have none.
  const Outcome eight = vernier("inspect " + tiny_model("gpt-oss-mxfp4") + " --shards 8", true);
  EXPECT_EQ(eight.exit_code, 0) << eight.output;
  EXPECT_NE(eight.output.find("4 of 8 ranks have no query head"), std::string::npos) << eight.output;
}

TEST(EndToEnd, FlagsWithNothingToActOnAreRefused) {
  for (const std::string& served : {tiny_model("bert"), std::string("script:/none")}) {
    const Outcome refused = vernier("serve " + served + " --port 0 --kv-cache-dtype fp8_e4m3", true);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_NE(refused.output.find("--kv-cache-dtype changes nothing"), std::string::npos) << refused.output;
  }
}

}  // namespace
}  // namespace vernier
