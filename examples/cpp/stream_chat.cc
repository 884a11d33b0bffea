// Streams the answer to one question: stream_chat MODEL QUESTION [MAX_TOKENS]
#include <vernier/engine.h>

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: stream_chat MODEL QUESTION [MAX_TOKENS]\n";
    return 2;
  }
  auto engine = vernier::Engine::open(argv[1]);
  if (!engine) {
    std::cerr << engine.error().message << "\n";
    return 1;
  }
  auto request = vernier::Request::chat({{"user", argv[2]}});
  if (argc > 3) request.max_tokens = std::atoi(argv[3]);
  auto answer =
      engine->generate(request, [](const vernier::Update& update) { std::cout << update.text << std::flush; });
  if (!answer) {
    std::cerr << answer.error().message << "\n";
    return 1;
  }
  std::cout << "\n";
  std::cerr << answer->prompt_tokens << " tokens in, " << answer->tokens.size() << " out, the first after "
            << static_cast<double>(answer->first_token_ns) / 1e6 << " ms\n";
}
