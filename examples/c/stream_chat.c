/* Streams the answer to one question: stream_chat MODEL QUESTION [MAX_TOKENS] */
#include <stdio.h>
#include <stdlib.h>
#include <vernier/vernier.h>

static void print_update(void* user, const vernier_update* update) {
  (void)user;
  fwrite(update->text, 1, update->text_size, stdout);
  fflush(stdout);
}

static int answer(vernier_engine* engine, const char* question, int max_tokens) {
  vernier_message message = {"user", question, 0};
  vernier_request_options options;
  vernier_request* request = NULL;
  const vernier_result* result = NULL;
  int failed;

  vernier_request_options_init(&options, sizeof options);
  options.messages = &message;
  options.message_count = 1;
  options.max_tokens = max_tokens;
  if (vernier_submit(engine, &options, print_update, NULL, &request) != VERNIER_OK ||
      vernier_request_wait(request, -1, &result) != VERNIER_OK) {
    fprintf(stderr, "%s\n", vernier_last_error());
    vernier_request_release(request);
    return 1;
  }
  failed = result->status != VERNIER_OK;
  if (failed) {
    fprintf(stderr, "%s\n", result->message);
  } else {
    printf("\n");
    fprintf(stderr, "%d tokens in, %d out, the first after %.1f ms\n", (int)result->prompt_tokens,
            (int)result->token_count, (double)result->first_token_ns / 1e6);
  }
  vernier_request_release(request);
  return failed;
}

int main(int argc, char** argv) {
  vernier_engine* engine = NULL;
  int failed;

  if (argc < 3) {
    fprintf(stderr, "usage: stream_chat MODEL QUESTION [MAX_TOKENS]\n");
    return 2;
  }
  if (vernier_engine_open(argv[1], NULL, &engine) != VERNIER_OK) {
    fprintf(stderr, "%s\n", vernier_last_error());
    return 1;
  }
  failed = answer(engine, argv[2], argc > 3 ? atoi(argv[3]) : -1);
  vernier_engine_close(engine);
  return failed;
}
