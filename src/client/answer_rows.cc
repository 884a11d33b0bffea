#include "client/conformance.h"

namespace vernier {
namespace {

constexpr const char* kAnswers = R"json([
{"n":"R01","what":"an answer has its top members","do":"chat","expect":{"/id":{"prefix":"chatcmpl-"},
 "/object":"chat.completion","/created":{"is":"integer","min":1500000000},"/model":{"not_empty":true},
 "/choices":{"size":1},"/usage":{"is":"object"}}},
{"n":"R02","what":"a choice has index, message, logprobs and finish_reason","do":"chat","expect":{"/choices/0/index":0,
 "/choices/0/message":{"is":"object"},"/choices/0/logprobs":{"is":"null"},
 "/choices/0/finish_reason":{"one_of":["stop","length"]}}},
{"n":"R03","what":"a message has role, content and refusal, and no empty tool_calls","do":"chat",
 "expect":{"/choices/0/message/role":"assistant","/choices/0/message/content":{"is":"string"},
 "/choices/0/message/refusal":{"is":"null"},"/choices/0/message/tool_calls":{"absent":true}}},
{"n":"R04","what":"no reasoning where there is none","do":"chat","expect":{"/choices/0/message/role":"assistant",
 "/choices/0/message/reasoning":{"absent":true},"/choices/0/message/reasoning_content":{"absent":true}}},
{"n":"R05","what":"a forced call has id, type, name and arguments that are JSON","do":"chat",
 "with":{"max_tokens":100,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
 "properties":{"city":{"type":"string","enum":["Oslo","Rome"]}},"required":["city"],"additionalProperties":false}}}],
 "tool_choice":{"type":"function","function":{"name":"get_weather"}}},
 "expect":{"/choices/0/message/content":null,"/choices/0/message/tool_calls":{"size":1},
 "/choices/0/message/tool_calls/0/id":{"prefix":"call_"},"/choices/0/message/tool_calls/0/type":"function",
 "/choices/0/message/tool_calls/0/function/name":"get_weather",
 "/choices/0/message/tool_calls/0/function/arguments":{"json":true},
 "/choices/0/finish_reason":{"one_of":["tool_calls","stop"]}}},
{"n":"R06","what":"usage has all its members","do":"chat","expect":{"/usage/prompt_tokens":{"is":"integer","min":1},
 "/usage/completion_tokens":{"is":"integer","min":1,"max":8},"/usage/total_tokens":{"is":"integer","min":2},
 "/usage/prompt_tokens_details/cached_tokens":{"is":"integer","min":0},
 "/usage/completion_tokens_details/reasoning_tokens":{"is":"integer","min":0},
 "/usage/completion_tokens_details/accepted_prediction_tokens":{"is":"integer","min":0},
 "/usage/completion_tokens_details/rejected_prediction_tokens":{"is":"integer","min":0}}},
{"n":"R09","what":"log-probabilities have token, bytes and k alternatives","do":"chat",
 "with":{"logprobs":true,"top_logprobs":2},"expect":{"/choices/0/logprobs/content/0/token":{"is":"string"},
 "/choices/0/logprobs/content/0/bytes":{"is":"array"},"/choices/0/logprobs/content/0/logprob":{"min":-9000,"max":0.0001},
 "/choices/0/logprobs/content/0/top_logprobs":{"size":2}}}
])json";

constexpr const char* kStreams = R"json([
{"n":"S01","what":"a stream has the header fields of one","do":"chat","stream":["headers"]},
{"n":"S01","what":"a stream asks proxies not to buffer","do":"chat","stream":["unbuffered"]},
{"n":"S02","what":"each event is one line of data","do":"chat","stream":["framing"]},
{"n":"S04","what":"all chunks have the same id, created, model and object","do":"chat","stream":["identity"]},
{"n":"S05","what":"the role comes first and once","do":"chat","stream":["role"],"each":[{},{"n":2}]},
{"n":"S06","what":"no content is empty or cut inside a character","do":"chat","stream":["content"]},
{"n":"S08","what":"each choice ends with one finish reason","do":"chat","stream":["finish"],"each":[{},{"n":2}]},
{"n":"S09","what":"no usage and no empty choices unless asked","do":"chat","stream":["no_usage"],"each":[{},{"n":2}]},
{"n":"S09","what":"usage comes last if asked","do":"chat","stream":["usage_last"],
 "each":[{"stream_options":{"include_usage":true}},{"n":2,"stream_options":{"include_usage":true}}]},
{"n":"S10","what":"[DONE] comes once and last","do":"chat","stream":["done"],
 "each":[{},{"n":2},{"stream_options":{"include_usage":true}}]},
{"n":"S12","what":"a call streams its id and name once","do":"chat","stream":["calls","finish"],
 "with":{"max_tokens":100,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
 "properties":{"city":{"type":"string","enum":["Oslo","Rome"]}},"required":["city"],"additionalProperties":false}}}],
 "tool_choice":{"type":"function","function":{"name":"get_weather"}}}}
])json";

constexpr const char* kOthers = R"json([
{"n":"C01","what":"prompts of another kind are 400","do":"text","status":400,"error":true,
 "each":[{"prompt":{"a":1}},{"prompt":[]},{"prompt":[1,"a"]},{"prompt":5}]},
{"n":"C01","what":"a list of prompts gives a choice each","do":"text","with":{"prompt":["The sun is","A cat has"]},
 "expect":{"/choices":{"size":2},"/choices/0/index":0,"/choices/1/index":1,"/choices/1/text":{"is":"string"}}},
{"n":"C02","what":"max_tokens below 1 without echo is 400","do":"text","status":400,"error":true,
 "each":[{"max_tokens":0},{"max_tokens":-1}]},
{"n":"C03","what":"echo puts the prompt in front","do":"text","with":{"prompt":"The quick brown fox","echo":true},
 "expect":{"/choices/0/text":{"prefix":"The quick brown fox"}}},
{"n":"C04","what":"logprobs outside the range are 400","do":"text","status":400,"error":true,
 "each":[{"logprobs":-1},{"logprobs":21},{"logprobs":"x"}]},
{"n":"C04","what":"logprobs are four lists","do":"text","with":{"logprobs":2},
 "expect":{"/choices/0/logprobs/tokens":{"not_empty":true},"/choices/0/logprobs/token_logprobs":{"not_empty":true},
 "/choices/0/logprobs/top_logprobs":{"not_empty":true},"/choices/0/logprobs/text_offset":{"not_empty":true}}},
{"n":"C05","what":"best_of below n or with a stream is 400","do":"text","status":400,"error":true,
 "each":[{"best_of":1,"n":2},{"best_of":2,"stream":true}]},
{"n":"C07","what":"a stream of completions is text_completion and ends","do":"text",
 "stream":["headers","framing","identity","finish","done"]},
{"n":"C08","what":"a token id outside the vocabulary is 400","do":"text","status":400,"error":true,
 "each":[{"prompt":[99999999]},{"prompt":[-1]},{"prompt":[1.5]}]},
{"n":"C09","what":"an answer has the id cmpl-","do":"text",
 "expect":{"/id":{"prefix":"cmpl-"},"/object":"text_completion","/choices/0/text":{"is":"string"}}},
{"n":"E01","what":"an input gives a vector","do":"embed","skip":404,
 "expect":{"/object":"list","/data/0/object":"embedding","/data/0/index":0,"/data/0/embedding":{"not_empty":true}}},
{"n":"E01","what":"empty inputs are 400","do":"embed","skip":404,"status":400,"error":true,
 "each":[{"input":""},{"input":[]},{"input":5}]},
{"n":"E02","what":"base64 is a string","do":"embed","skip":404,"with":{"encoding_format":"base64"},
 "expect":{"/data/0/embedding":{"is":"string","not_empty":true}}},
{"n":"E04","what":"usage counts the prompt","do":"embed","skip":404,"expect":{"/usage/prompt_tokens":{"min":1},
 "/usage/total_tokens":{"min":1}}},
{"n":"M01","what":"the list of models names one","do":"GET /v1/models","expect":{"/object":"list",
 "/data/0/id":{"not_empty":true},"/data/0/object":"model","/data/0/created":{"is":"integer"},
 "/data/0/owned_by":{"is":"string"}}},
{"n":"M01","what":"the context length is told","ours":true,"do":"GET /v1/models",
 "expect":{"/data/0/max_model_len":{"is":"integer","min":1}}},
{"n":"M03","what":"an unknown model is 404 model_not_found","do":"GET /v1/models/some%2Fmodel","status":404,
 "expect":{"/error/code":"model_not_found"}},
{"n":"M04","what":"the prefix /v1 may be left out","ours":true,"do":"GET /models","expect":{"/object":"list"}},
{"n":"P01","what":"bad requests of responses are 400","do":"respond","status":400,"error":true,
 "each":[{"input":[]},{"input":5},{"input":[{"role":"robot","content":"x"}]},{"temperature":3},{"max_output_tokens":0},
 {"tool_choice":"required"},{"reasoning":{"effort":"enormous"}}]},
{"n":"P01","what":"forms of input are taken","do":"respond","expect":{"/object":"response"},
 "each":[{"input":"Hi"},{"input":[{"role":"user","content":"Hi"}]},{"instructions":"Be brief."},{"store":false},
 {"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}]}]},
{"n":"P02","what":"a response has its members","do":"respond","expect":{"/id":{"prefix":"resp_"},"/object":"response",
 "/status":{"one_of":["completed","incomplete"]},"/error":{"is":"null"},"/output":{"not_empty":true},
 "/parallel_tool_calls":{"is":"boolean"},"/tools":{"is":"array"},"/usage/input_tokens":{"min":1},
 "/usage/output_tokens":{"min":1},"/usage/total_tokens":{"min":2},
 "/usage/input_tokens_details/cached_tokens":{"is":"integer"},
 "/usage/output_tokens_details/reasoning_tokens":{"is":"integer"}}},
{"n":"P03","what":"a message is an item with output_text","do":"respond","expect":{"/output/0/type":"message",
 "/output/0/role":"assistant","/output/0/content/0/type":"output_text","/output/0/content/0/text":{"is":"string"},
 "/output/0/content/0/annotations":{"is":"array"}}},
{"n":"P04","what":"events are named and numbered without gaps","do":"respond","stream":["named_events"]},
{"n":"P05","what":"events come in order and end with the whole response","do":"respond","stream":["response_order"]},
{"n":"P08","what":"an unknown previous response is refused","do":"respond","with":{"previous_response_id":"resp_nothing"},
 "status":[400,404],"error":true},
{"n":"P09","what":"an unknown stored response is 404","do":"GET /v1/responses/resp_nothing","status":404,"error":true}
])json";

}  // namespace

nlohmann::json answer_rows() {
  nlohmann::json rows = nlohmann::json::parse(kAnswers);
  for (const char* text : {kStreams, kOthers}) {
    for (nlohmann::json& row : nlohmann::json::parse(text)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace vernier
