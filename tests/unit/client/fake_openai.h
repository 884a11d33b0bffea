#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "unit/client/fake_server.h"

namespace vernier::testing {

/// A server of good behaviour, as far as the tests of the checks need it, and one fault by name. Its model counts.
struct FakeOpenAi {
  std::string fault;

  using json = nlohmann::json;
  bool has(const char* name) const { return fault == name; }

  void operator()(const FakeRequest& request, FakePeer& peer) const {
    if (has("close") || (has("no chunks") && request.head.find("Transfer-Encoding") != std::string::npos)) {
      return peer.hang_up();
    }
    const bool keyed = request.head.find("earer secret") != std::string::npos;
    if (!keyed && !has("any key")) return refuse(peer, 401, "invalid_api_key");
    if (request.path == "/v1/models") return models(peer);
    if (request.path == "/v1/models/m") return send(peer, model(has("other model") ? "x" : "m"));
    if (request.path.starts_with("/v1/models/"))
      return refuse(peer, 404, has("no code") ? nullptr : json("model_not_found"));
    const bool chat = request.path == "/v1/chat/completions";
    if (!chat && request.path != "/v1/completions") return refuse(peer, 404, nullptr);
    if (request.method != "POST") return refuse(peer, 405, nullptr, has("no allow") ? "" : "Allow: POST\r\n");
    complete(json::parse(request.body, nullptr, false), chat, request.number, peer);
  }

  void refuse(FakePeer& peer, int status, const json& code, const std::string& fields = "") const {
    const json param = code == "model_not_found" ? json("model") : json();
    json error = {{"message", "no"}, {"type", "invalid_request_error"}, {"param", param}, {"code", code}};
    peer.answer(status, (has("flat error") ? error : json{{"error", error}}).dump(), fields);
  }
  void send(FakePeer& peer, const json& body) const {
    peer.answer(200, body.dump(), has("no request id") ? "" : "X-Request-Id: r\r\n");
  }
  json model(const std::string& id) const {
    json out = {{"id", id}, {"object", "model"}, {"created", 1700000000}, {"owned_by", "us"}};
    if (has("no owner")) out.erase("owned_by");
    return out;
  }
  void models(FakePeer& peer) const { send(peer, {{"object", "list"}, {"data", json::array({model("m")})}}); }

  void complete(const json& body, bool chat, int number, FakePeer& peer) const {
    if (!body.is_object() || (chat && body.value("messages", json()).empty())) return refuse(peer, 400, nullptr);
    if (body.value("model", json()) != "m" && !has("any model")) return refuse(peer, 404, "model_not_found");
    const json temperature = body.value("temperature", json());
    const bool bad = (!temperature.is_null() && (!temperature.is_number() || temperature < 0 || temperature > 2)) ||
                     body.value("max_tokens", 1) < 1 ||
                     (body.contains("n") && !(body["n"].is_number_integer() && body["n"] >= 1 && body["n"] <= 128));
    const json seed = body.value("seed", json(0));
    const bool bad_seed = !seed.is_number_integer() || (seed.is_number_unsigned() && seed.get<uint64_t>() > INT64_MAX);
    const json stop = body.value("stop", json());
    const bool bad_stop = stop == "" || stop.is_number() ||
                          (stop.is_array() && (stop.size() > 16 || !stop[0].is_string() || stop[0] == ""));
    const bool stream = body.value("stream", false);
    if ((bad || bad_stop || bad_seed) && !has("any value") && !(stream && has("late refusal")))
      return refuse(peer, 400, nullptr);
    std::string text = "one two three four";
    if (temperature.is_number() && temperature > 1) {
      text += std::to_string(has("random") ? number : body.value("seed", 0));
    }
    const bool cut = stop.is_string() && text.find(stop.get<std::string>()) != std::string::npos;
    if (cut && !has("stop kept")) text = text.substr(0, text.find(stop.get<std::string>()));
    const int n = has("one choice") ? 1 : body.value("n", 1);
    const json usage = usage_of(n);
    const std::string id = (chat ? "chatcmpl-" : "cmpl-") + std::to_string(has("same id") ? 0 : number);
    json top = {{"id", id}, {"created", 1700000000}, {"model", "m"}};
    if (has("no created")) top.erase("created");
    if (stream) return send_stream(top, chat, text, n, cut, body, usage, peer);
    top["object"] = chat ? "chat.completion" : "text_completion";
    top["usage"] = usage;
    for (int i = 0; i < n; ++i) top["choices"].push_back(choice(i, chat, text, cut));
    send(peer, top);
  }

  json usage_of(int n) const {
    const int prompt = has("prompt twice") ? 5 * n : 5;
    json usage = {{"prompt_tokens", prompt}, {"completion_tokens", 4 * n}, {"total_tokens", prompt + 4 * n}};
    if (has("no details")) return usage;
    usage["prompt_tokens_details"] = {{"cached_tokens", 0}};
    usage["completion_tokens_details"] = {
        {"reasoning_tokens", 0}, {"accepted_prediction_tokens", 0}, {"rejected_prediction_tokens", 0}};
    return usage;
  }
  json choice(int i, bool chat, const std::string& text, bool cut) const {
    json out = {{"index", i}, {"finish_reason", cut ? "stop" : "length"}, {"logprobs", nullptr}};
    if (has("no logprobs")) out.erase("logprobs");
    if (chat) {
      out["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
      if (has("empty calls")) out["message"]["tool_calls"] = json::array();
    } else {
      out["text"] = text;
    }
    return out;
  }

  void send_stream(json top, bool chat, const std::string& text, int n, bool cut, const json& body, const json& usage,
                   FakePeer& peer) const {
    peer.begin_chunks(std::string("Content-Type: ") + (has("json stream") ? "application/json" : "text/event-stream") +
                      "\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    top["object"] = chat ? "chat.completion.chunk" : "text_completion";
    const bool with_usage = body.contains("stream_options");
    int sent = 0;
    if (has("buffered")) peer.hold();
    auto event = [&](const json& choices, const json& total) {
      ::usleep(2000);
      json chunk = top;
      if (has("new id")) chunk["id"] = std::to_string(sent);
      ++sent;
      chunk["choices"] = choices;
      if (with_usage || has("usage always")) chunk["usage"] = has("usage always") ? usage : total;
      peer.chunk((has("event line") ? "event: x\ndata: " : "data: ") + chunk.dump() + "\n\n");
    };
    auto piece = [&](int i, const json& delta, const json& finish) {
      json one = {{"index", i}, {"finish_reason", finish}};
      one[chat ? "delta" : "text"] = chat ? delta : delta.value("content", json(""));
      event(json::array({one}), nullptr);
    };
    for (int i = 0; i < n; ++i) {
      if (chat) piece(i, {{"role", "assistant"}, {"content", ""}}, nullptr);
      const size_t half = text.size() / 2;
      piece(i, {{"content", text.substr(0, half)}}, nullptr);
      if (has("role twice")) piece(i, {{"role", "assistant"}}, nullptr);
      if (has("empty content")) piece(i, {{"content", ""}}, nullptr);
      if (!has("lost text")) piece(i, {{"content", text.substr(half)}}, nullptr);
      if (!has("no finish")) piece(i, json::object(), cut ? "stop" : "length");
    }
    if (has("cut stream")) return peer.hang_up();
    if (with_usage) event(json::array(), usage);
    if (!has("no done")) peer.chunk("data: [DONE]\n\n");
    peer.chunk("");
    if (has("buffered")) peer.release();
  }
};

}  // namespace vernier::testing
