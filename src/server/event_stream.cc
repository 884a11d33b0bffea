#include "server/event_stream.h"

namespace vernier {

bool EventStream::begin(HeaderList more) {
  HeaderList headers{
      {"Content-Type", "text/event-stream; charset=utf-8"}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  for (const auto& [name, value] : more) headers.add(name, value);
  return response_->begin(200, std::move(headers));
}

void EventStream::add(std::string_view json) {
  batch_ += "data: ";
  batch_ += json;
  batch_ += "\n\n";
}

void EventStream::add_named(std::string_view event, std::string_view json) {
  batch_ += "event: ";
  batch_ += event;
  batch_ += '\n';
  add(json);
}

WriteState EventStream::flush() {
  if (batch_.empty()) return response_->gone() ? WriteState::kClosed : WriteState::kTaken;
  WriteState state = response_->write(batch_);
  batch_.clear();
  return state;
}

void EventStream::done() {
  add("[DONE]");
  end();
}

void EventStream::end() {
  flush();
  response_->finish();
}

void EventStream::fail(const ApiError& error) {
  if (response_->send(error.response())) return;
  add(error.body());
  done();
}

}  // namespace vernier
