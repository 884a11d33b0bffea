#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/http_client.h"
#include "testing/temp_folder.h"

namespace vernier::testing {

/// `vernier serve` as a process of its own, with the tiny checkpoint of tests/data or a script over its tokenizer.
class ServedProgram {
 public:
  /// `script`: a script's members but its tokenizer; null: the checkpoint's weights.
  ServedProgram(const nlohmann::json& script, const std::vector<std::string>& flags) {
    namespace fs = std::filesystem;
    const fs::path data = VERNIER_TEST_DATA;
    const fs::path model = folder_.path("tiny");
    fs::copy(data / "models" / "llama", model);
    fs::copy_file(data / "tokenizers" / "mini-merges.json", model / "tokenizer.json");
    folder_.write("tiny/chat_template.jinja",
                  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
    std::string served = model;
    if (!script.is_null()) {
      nlohmann::json file = script;
      file["tokenizer"] = model.string();
      served = "script:" + folder_.write("scripted.json", file.dump());
    }
    std::vector<std::string> command = {VERNIER_PROGRAM,       "serve", served,        "--port", "0",
                                        "--served-model-name", "m",     "--log-level", "error"};
    command.insert(command.end(), flags.begin(), flags.end());
    start(command);
  }
  ~ServedProgram() { stop(); }
  ServedProgram(const ServedProgram&) = delete;
  ServedProgram& operator=(const ServedProgram&) = delete;

  const ServerUrl& url() const { return url_; }
  /// What SIGTERM ended it with; 128 and the signal's number if that was another.
  int stop() {
    if (pid_ <= 0) return -1;
    ::kill(pid_, SIGTERM);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  double resident_mb() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
    }
    return -1;
  }
  /// The sum of a family's samples whose line holds `label`.
  double metric(const std::string& name, const std::string& label = "") const {
    HttpClient client(url_);
    auto reply = client.ask({.path = "/metrics"});
    if (!reply.ok()) return -1;
    double sum = 0;
    size_t at = 0;
    for (const std::string& text = reply->body; at < text.size();) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      at += line.size() + 1;
      const bool named = line.starts_with(name) && (line[name.size()] == '{' || line[name.size()] == ' ');
      if (named && line.find(label) != std::string::npos) sum += std::stod(line.substr(line.rfind(' ')));
    }
    return sum;
  }
  /// Whether all that ran has ended and given its blocks back, within 20 s.
  bool comes_to_rest() const {
    for (int i = 0; i < 400; ++i) {
      const double busy = metric("vernier_requests_running") + metric("vernier_requests_waiting") +
                          metric("vernier_cache_blocks", "state=\"held\"") + metric("vernier_http_requests_under_way") -
                          1;
      if (busy == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

 private:
  void start(const std::vector<std::string>& command) {
    int out[2];
    ASSERT_EQ(::pipe(out), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::close(out[0]);
      ::close(out[1]);
      std::vector<char*> words;
      for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(out[1]);
    std::string line;
    for (char c = 0; ::read(out[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(out[0]);
    const size_t at = line.find("http://");
    ASSERT_NE(at, std::string::npos) << "vernier serve said '" << line << "'";
    url_ = parse_server_url(line.substr(at, line.find(',', at) - at)).value();
  }

  TempFolder folder_;
  pid_t pid_ = -1;
  ServerUrl url_;
};

/// Lets this process open as many files as it may; how many that is.
inline size_t raise_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace vernier::testing
