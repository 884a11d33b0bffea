/* The C API of Vernier: C99, opaque handles, no exceptions. <vernier/engine.h> is the same in C++17.
 *
 * Errors are values: every call that can fail returns a vernier_status, and vernier_last_error() tells more.
 *
 * Threads: any function may be called by any thread, and one handle may be used by several at once; only
 * vernier_engine_close and vernier_request_release are the last that is done with a handle. Callbacks run on a thread
 * of the library that computes nothing: one callback at a time for each engine, and a slow one delays other callbacks
 * of that engine but no computation. From a callback everything is allowed, closing the engine too, but waiting
 * (vernier_request_wait), which is refused. A callback must not throw.
 *
 * Text is UTF-8. Where a size stands beside a text, 0 means that the text ends with a NUL. What a call hands out
 * belongs to the caller only where vernier_free is named. */
#ifndef VERNIER_VERNIER_H
#define VERNIER_VERNIER_H

#include <stddef.h>
#include <stdint.h>

#define VERNIER_VERSION_MAJOR 0
#define VERNIER_VERSION_MINOR 1
#define VERNIER_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vernier_status {
  VERNIER_OK = 0,
  VERNIER_INVALID_ARGUMENT = 1, /* an option that the caller can change */
  VERNIER_NOT_FOUND = 2,        /* a file that is not there */
  VERNIER_CORRUPT = 3,          /* a file that breaks its own format */
  VERNIER_UNSUPPORTED = 4,      /* understood, and not possible with this model, machine or build */
  VERNIER_OUT_OF_MEMORY = 5,
  VERNIER_OVERLOADED = 6,  /* the queue is full; try again in a while */
  VERNIER_TIMEOUT = 7,     /* a deadline passed, or a wait was not long enough */
  VERNIER_UNAVAILABLE = 8, /* the engine is closed */
  VERNIER_INTERNAL = 9     /* a device or a system call failed */
} vernier_status;

/* "0.1.0": of the library that runs; the macros above are of the header. */
const char* vernier_version(void);
/* "invalid_argument" and the like. */
const char* vernier_status_name(vernier_status status);
/* What the last call on this thread that failed says: what was found, what was expected, what to do. Holds until the
 * thread's next call that fails. Never null. */
const char* vernier_last_error(void);
/* Frees what this library handed out; null does nothing. */
void vernier_free(void* memory);

typedef enum vernier_log_level {
  VERNIER_LOG_DEBUG = 0,
  VERNIER_LOG_INFO = 1,
  VERNIER_LOG_WARNING = 2,
  VERNIER_LOG_ERROR = 3,
  VERNIER_LOG_OFF = 4
} vernier_log_level;
typedef void (*vernier_log_callback)(void* user, vernier_log_level level, const char* line);
/* Of the whole process. Lines below `level` are dropped (until set: below warning); the others reach the callback, on a
 * thread of its own, or standard error where it is null. On return no callback that was set before runs, unless this is
 * called from it. `release` (may be null) is called once no more lines will come for `user`. */
void vernier_set_log(vernier_log_level level, vernier_log_callback callback, void* user, void (*release)(void* user));

/* ---- Engine: a model that is loaded and runs ---- */

typedef struct vernier_engine vernier_engine;

/* During vernier_engine_open, on its thread. */
typedef void (*vernier_progress_callback)(void* user, int64_t done_bytes, int64_t total_bytes);

/* Made by vernier_engine_options_init; what is null or zero is the default. */
typedef struct vernier_engine_options {
  size_t struct_size;   /* sizeof(vernier_engine_options) */
  const char* backend;  /* "cpu" (default); "cuda", "auto"; "reference": float64, slow */
  const char* isa;      /* of the CPU: "baseline", "avx2", "avx512", "amx"; default: the best that the machine has */
  const char* numerics; /* "fast" (default): activations may be quantised in a product; "exact": float32 */
  const char* kv_type;  /* stored type of keys and values: "auto" (default: the checkpoint's, else f16), "f32",
                           "f16", "bf16", "fp8_e4m3", "fp8_e5m2" */
  const char* chat_template; /* the text of a template instead of the model's own */
  int32_t threads;           /* default: one for each core that the process may use */
  int32_t context_tokens;    /* longest sequence; default: the model's, at most 8192 */
  int32_t max_sequences;     /* that run at once; default 64 */
  int32_t max_queue;         /* that wait; one more is refused with VERNIER_OVERLOADED; default 256, -1: none */
  int32_t max_step_rows;     /* tokens computed in one step at most; default 512 */
  int64_t cache_bytes;       /* of keys and values; default: four sequences of full length */
  int32_t no_prefix_cache;   /* 1: every prompt is computed from its start */
  int32_t no_reasoning;      /* 1: reasoning stays a part of the text */
  int32_t no_model_sampling; /* 1: the makers' advice on sampling is not regarded */
  vernier_progress_callback progress;
  void* progress_user;
  const char* tune;       /* while it opens: "off" (default) measures nothing and uses what is known of how this machine
                             multiplies best; "missing" measures what is not known of this model, "full" all of it. No
                             answer changes by a bit; of the CPU */
  const char* tune_store; /* the folder where that is kept, as the program's --tune-store, whose own is
                             ~/.cache/vernier/tactics; FOLDER:ro is only read; default: none, and what is measured is
                             forgotten */
  int64_t tune_budget_ms; /* for measuring; default 10000 */
} vernier_engine_options;
void vernier_engine_options_init(vernier_engine_options* options, size_t struct_size);

/* Opens a GGUF file (of several parts: the first) or a folder with Hugging Face's files, loads it and starts its
 * threads. Takes seconds to minutes. `options` may be null. On success *engine is to be closed. */
vernier_status vernier_engine_open(const char* path, const vernier_engine_options* options, vernier_engine** engine);

/* Ends all requests as cancelled and frees the model. From any thread that is not a callback: returns after the last
 * callback has. From a callback: the last updates of other requests follow once that callback returned, and their calls
 * with this engine are answered with VERNIER_UNAVAILABLE. Null does nothing. */
void vernier_engine_close(vernier_engine* engine);

typedef struct vernier_engine_info {
  size_t struct_size; /* set by the caller */
  int32_t context_tokens, vocabulary, hidden;
  int32_t has_chat_template;
  int64_t weight_bytes, cache_bytes; /* in memory */
} vernier_engine_info;
vernier_status vernier_engine_get_info(const vernier_engine* engine, vernier_engine_info* info);

/* Counters since the engine was opened, and how many requests run and wait now; all of one moment. */
typedef struct vernier_engine_stats {
  size_t struct_size; /* set by the caller */
  int64_t running, waiting, finished, failed, cancelled, refused;
  int64_t prompt_tokens, cached_prompt_tokens, generated_tokens, steps, preemptions;
} vernier_engine_stats;
vernier_status vernier_engine_get_stats(const vernier_engine* engine, vernier_engine_stats* stats);

/* The text of these ids, to be freed by vernier_free; ids that do not exist are passed over. `skip_special` leaves out
 * control tokens. The text ends with a NUL, which *size (may be null) does not count. */
vernier_status vernier_detokenize(const vernier_engine* engine, const int32_t* tokens, size_t count,
                                  int32_t skip_special, char** text, size_t* size);

/* ---- Request ---- */

typedef struct vernier_request vernier_request;

typedef struct vernier_message {
  const char* role;    /* "system", "user", "assistant" */
  const char* content; /* its text never becomes a control token */
  size_t content_size;
} vernier_message;
typedef struct vernier_logit_bias {
  int32_t token;
  float bias; /* -100 to 100 */
} vernier_logit_bias;

typedef enum vernier_kind {
  VERNIER_GENERATE = 0,
  VERNIER_EMBED_LAST = 1, /* the final hidden state of the prompt's last token, [hidden], of unit length */
  VERNIER_EMBED_MEAN = 2  /* the mean over all tokens */
} vernier_kind;
typedef enum vernier_constraint {
  VERNIER_FREE = 0,
  VERNIER_JSON_OBJECT = 1,
  VERNIER_JSON_SCHEMA = 2, /* `constraint_text` is a schema */
  VERNIER_REGEX = 3,       /* a regular expression that the whole answer matches */
  VERNIER_GRAMMAR = 4      /* a grammar in GBNF, its rule `root` is the answer */
} vernier_constraint;

/* Made by vernier_request_options_init. All pointers are read before vernier_submit returns. */
typedef struct vernier_request_options {
  size_t struct_size;
  vernier_kind kind;
  /* The prompt: one of tokens, text, messages, messages_json. */
  const int32_t* tokens; /* [token_count] */
  size_t token_count;
  const char* text; /* continued as it is */
  size_t text_size;
  const vernier_message* messages; /* [message_count], through the model's chat template */
  size_t message_count;
  const char* messages_json;  /* an array in OpenAI's form, with calls and their results */
  const char* tools_json;     /* an array in OpenAI's form; with messages */
  const char* tool_choice;    /* "auto" (default), "none", "required", or a function's name */
  const char* variables_json; /* an object of further variables for the template */
  int32_t add_special;        /* of a text: the model's begin token, default 1 */
  int32_t parse_special;      /* of a text: control tokens in it are matched, default 0 */
  /* Drawing. NaN, and INT32_MIN for top_k: what the makers advise, else neutral. */
  float temperature; /* 0: greedy */
  float top_p, min_p, typical_p, repetition_penalty, frequency_penalty, presence_penalty;
  int32_t top_k;                        /* 0: off */
  int64_t seed;                         /* negative (default): a new one; equal seeds draw equal tokens */
  const vernier_logit_bias* logit_bias; /* [logit_bias_count] */
  size_t logit_bias_count;
  /* The end of the answer */
  int32_t max_tokens;       /* -1 (default): the rest of the context */
  int32_t min_tokens;       /* no end token before */
  const char* const* stops; /* [stop_count]; the match and what follows are no part of the text */
  size_t stop_count;
  int32_t ignore_end_tokens; /* 1: the model's end tokens do not end the answer */
  vernier_constraint constraint;
  const char* constraint_text;
  /* The rest */
  int32_t top_logprobs; /* -1 (default): no log probabilities; 0 to 20: this many alternatives to each token */
  int32_t priority;     /* higher first */
  int64_t deadline_ms;  /* from now; a request that is late fails with VERNIER_TIMEOUT; 0: none */
  uint64_t cache_salt;  /* prompts are found in the cache of equal salts alone */
} vernier_request_options;
void vernier_request_options_init(vernier_request_options* options, size_t struct_size);

typedef struct vernier_logprob {
  int32_t token;
  float logprob; /* natural, of the model's own distribution */
} vernier_logprob;
typedef struct vernier_token {
  int32_t token;
  float logprob;              /* 0 unless asked for */
  const vernier_logprob* top; /* [top_count], likeliest first */
  size_t top_count;
} vernier_token;
typedef struct vernier_call {
  const char* name;
  const char* arguments; /* a JSON object, as the model wrote it */
} vernier_call;

typedef enum vernier_finish {
  VERNIER_STOPPED = 0, /* an end token, a stop string, a complete constraint */
  VERNIER_CALLED = 1,  /* ended with calls */
  VERNIER_LENGTH = 2,  /* max_tokens */
  VERNIER_CONTEXT = 3, /* the context is full */
  VERNIER_CANCELLED = 4
} vernier_finish;

/* How a request ended. The times sum to its time in the engine, but for first_token_ns, which counts from the start. */
typedef struct vernier_result {
  vernier_status status; /* what it failed with; the rest then tells how far it came */
  const char* message;   /* of a failure, else "" */
  vernier_finish finish;
  const char* text; /* the whole answer, without reasoning and calls */
  size_t text_size;
  const char* reasoning;
  size_t reasoning_size;
  const vernier_call* calls; /* [call_count] */
  size_t call_count;
  const vernier_token* tokens; /* [token_count], without the end token */
  size_t token_count;
  const float* embedding; /* [embedding_size]; of VERNIER_EMBED_* */
  size_t embedding_size;
  const char* stop;                        /* the stop string that ended it, else "" */
  int32_t prompt_tokens, cached_tokens;    /* of the prompt, and those found in the cache */
  int32_t reasoning_tokens, preemptions;   /* tokens in reasoning; times that its cache was taken away */
  int64_t queue_ns, prefill_ns, decode_ns; /* before its first step; in steps with its prompt; with its answer */
  int64_t waiting_ns, preempted_ns;        /* between its steps; taken off the machine and computing again */
  int64_t padding_ns;                      /* of its steps: the share of rows that only fill up a shape */
  int64_t first_token_ns;
} vernier_result;

/* News of a request. Texts are what became certain since the last update: whole characters, and nothing that may yet be
 * a stop string; all pieces together are the result's text. Held until the callback returns. */
typedef struct vernier_update {
  vernier_request* request; /* may be cancelled; also where the submit has not returned yet */
  const char* text;
  size_t text_size;
  const char* reasoning;
  size_t reasoning_size;
  const vernier_token* tokens; /* [token_count] since the last update; may be ahead of the texts */
  size_t token_count;
  const vernier_result* result; /* null until the last update */
} vernier_update;
typedef void (*vernier_update_callback)(void* user, const vernier_update* update);

/* Checks, renders and tokenises on this thread, and queues. With a constraint it may take seconds. `callback` may be
 * null; otherwise an accepted request gets exactly one last update and nothing after it, and a refused one gets none.
 * On success *request is to be released, whenever you like. */
vernier_status vernier_submit(vernier_engine* engine, const vernier_request_options* options,
                              vernier_update_callback callback, void* user, vernier_request** request);
/* It ends soon, as VERNIER_CANCELLED, unless it has ended. */
void vernier_request_cancel(vernier_request* request);
/* Until it has ended and its last callback has returned; at most `timeout_ms`, -1: without end. VERNIER_OK: *result
 * (may be null) holds until the release, and tells of success or failure. VERNIER_TIMEOUT: it still runs. Refused on
 * the thread of its callbacks, but for a timeout of 0. */
vernier_status vernier_request_wait(vernier_request* request, int64_t timeout_ms, const vernier_result** result);
/* Lets the handle go. A request that has a callback runs on; one without is cancelled, since nobody could hear of it.
 * Null does nothing. */
void vernier_request_release(vernier_request* request);

/* The prompt that vernier_submit would make of `options`: its text and ids, each to be freed by vernier_free. A pair
 * of pointers may be null. This is also how a text is tokenised. */
vernier_status vernier_prompt(const vernier_engine* engine, const vernier_request_options* options, char** text,
                              size_t* text_size, int32_t** tokens, size_t* token_count);

#ifdef __cplusplus
}
#endif

#endif /* VERNIER_VERNIER_H */
