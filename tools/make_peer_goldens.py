#!/usr/bin/env python3
"""What llama.cpp answers: greedy tokens of 20 prompts and the perplexity of a text, as goldens for tests/golden/peer.

  make_peer_goldens.py MODEL.gguf OUT.json [--text tests/data/text/jargon.txt] [--threads 2]     (llama-cpp-python, numpy)
  make_peer_goldens.py MODEL.gguf OUT.json --ids-only       writes the text's ids again, keeps the answers and the perplexity

For each prompt: the ids that were fed, the ids chosen greedily, and at each choice the distance between the best two logits.
Perplexity as llama-perplexity measures it: windows of 512 tokens (each begins with the begin token where the model adds
one), of which the predictions of the second half count; over the peer's own ids of the text. Nothing in OUT is edited by hand.
"""
import argparse
import hashlib
import json

import llama_cpp
import numpy as np

PROMPTS = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Name three primary colors.",
    "Explain what a compiler does in one paragraph.",
    "Translate to Spanish: The weather is nice today.",
    "What is 12 times 9?",
    "List the planets of the solar system in order.",
    "Write a haiku about autumn leaves.",
    "Who wrote Romeo and Juliet?",
    "Give me a recipe for pancakes.",
    "Why is the sky blue?",
    "Summarize: Bees collect nectar from flowers and turn it into honey in the hive.",
    "What does HTTP stand for?",
    "Write a Python function that returns the sum of a list.",
    "Describe a sunset to somebody who has never seen one.",
    "How many legs does a spider have?",
    "Continue the story: The old lighthouse keeper heard a knock at the door.",
    "What is the difference between a simile and a metaphor?",
    "Give two reasons to learn a second language.",
    "Was ist die Hauptstadt von Österreich?",
]
ANSWER_TOKENS = 32
WINDOW = 512


def greedy(model, ids):
    """Ids chosen one after another, and the gap between the best two logits at each choice."""
    model.reset()
    model.eval(ids)
    chosen, gaps = [], []
    while len(chosen) < ANSWER_TOKENS:
        row = model.scores[model.n_tokens - 1]
        best = np.sort(np.partition(row, -2)[-2:])
        chosen.append(int(row.argmax()))
        gaps.append(round(float(best[1] - best[0]), 4))
        model.eval(chosen[-1:])
    return chosen, gaps


def perplexity(model, ids, begin):
    total, count = 0.0, 0
    for start in range(0, len(ids) - WINDOW + 1, WINDOW):
        window = list(ids[start : start + WINDOW])
        if begin is not None:
            window[0] = begin
        model.reset()
        model.eval(window)
        rows = model.scores[WINDOW // 2 : WINDOW - 1].astype(np.float64)
        rows -= rows.max(-1, keepdims=True)
        log_sum = np.log(np.exp(rows).sum(-1))
        total += float((log_sum - rows[np.arange(len(rows)), window[WINDOW // 2 + 1 :]]).sum())
        count += len(rows)
    return float(np.exp(total / count)), count


def write(golden, out):
    with open(out, "w") as f:
        json.dump(golden, f, indent=None, separators=(",", ":"))
        f.write("\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("out")
    p.add_argument("--text", default="tests/data/text/jargon.txt")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--ids-only", action="store_true")
    a = p.parse_args()
    with open(a.model, "rb") as f:
        sha256 = hashlib.file_digest(f, "sha256").hexdigest()
    with open(a.text, "rb") as f:
        raw = f.read()
    text_sha256 = hashlib.sha256(raw).hexdigest()
    model = llama_cpp.Llama(a.model, n_ctx=WINDOW, n_batch=WINDOW, n_threads=a.threads, logits_all=not a.ids_only,
                            vocab_only=a.ids_only, verbose=False)
    adds_begin = model.metadata.get("tokenizer.ggml.add_bos_token", "true" if model.token_bos() >= 0 else "false") == "true"
    adds_begin = adds_begin and model.metadata.get("tokenizer.ggml.model") != "gpt2"
    has_template = "tokenizer.chat_template" in model.metadata
    begin = model.token_bos() if adds_begin else None

    ids = model.tokenize(raw, add_bos=adds_begin, special=False)
    if a.ids_only:
        with open(a.out) as f:
            golden = json.load(f)
        kept = golden["perplexity"]
        if (golden["model_sha256"], kept["text_sha256"], kept["tokens"]) != (sha256, text_sha256, len(ids)):
            raise SystemExit(f"{a.out} is of another model, text or tokenizer; make all of it again")
        kept["ids"] = ids
        write(golden, a.out)
        return

    answers = []
    for prompt in PROMPTS:
        text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n" if has_template else prompt
        fed = model.tokenize(text.encode(), add_bos=adds_begin, special=True)
        chosen, gaps = greedy(model, fed)
        answers.append({"prompt": prompt, "ids": fed, "greedy": chosen, "gap": gaps})
    value, count = perplexity(model, ids, begin)
    golden = {
        "peer": f"llama-cpp-python {llama_cpp.__version__}",
        "model_sha256": sha256,
        "answers": answers,
        "perplexity": {
            "text_sha256": text_sha256,
            "window": WINDOW,
            "tokens": len(ids),
            "predictions": count,
            "value": value,
            "ids": ids,
        },
    }
    write(golden, a.out)


main()
