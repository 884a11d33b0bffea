#!/usr/bin/env python3
"""What llama.cpp reads and answers of the GGUF files that `vernier quantize` writes of folders: goldens for tests/golden/models.

  make_written_gguf_goldens.py [--vernier build/release/app/vernier] [--out tests/data/peer/written]
                                                                                       (llama-cpp-python, numpy)

For each tiny folder of MODELS, with a tokenizer of tests/data/tokenizers beside it: the keys that llama.cpp finds in the file,
the ids that it makes of a text, its logits of a few more tokens than a window holds, and the tokens that it chooses after
them. Activations, weights and cache are float32, but for a head that shares its table with the embedding: that is bfloat16, to
which llama.cpp rounds what it multiplies with it. Nothing in OUT is edited by hand.
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile

import llama_cpp
import numpy as np

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data")
# llama.cpp's ramp of YaRN ends at whole pairs, gpt-oss's does not: here both ends are whole.
WHOLE = {"rope_scaling": {"original_max_position_embeddings": 260, "beta_fast": 64.0, "beta_slow": 0.9983}}
MODELS = {
    "gemma3": {"tokenizer": "mini-spm-never", "change": {}},
    "gpt-oss": {"tokenizer": "mini-merges", "change": WHOLE},
}
TEXT = "the hello of  12345 caf\u00e9s, (abc) \u4e2d\n\n    and <tool>\u00bd"
TOKENS, GREEDY = 16, 8


def merge(into, change):
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def write_source(model, tokenizer, change, folder):
    with open(os.path.join(DATA, "models", model, "config.json")) as file:
        config = json.load(file)
    merge(config, change)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    shutil.copy(os.path.join(DATA, "models", model, "model.safetensors"), folder)
    with open(os.path.join(DATA, "tokenizers", tokenizer + ".json")) as file:
        tree = json.load(file)
    for added in tree["added_tokens"]:
        added.update({flag: False for flag in ("lstrip", "rstrip", "single_word")})  # GGUF files have no place for them
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(tree, file)


def golden(vernier, model, settings):
    with tempfile.TemporaryDirectory() as work:
        source = os.path.join(work, model)
        os.mkdir(source)
        write_source(model, settings["tokenizer"], settings["change"], source)
        out = os.path.join(work, "out.gguf")
        subprocess.run([vernier, "quantize", source, "--to", "f32", "--quantize-head", "--out", out], check=True,
                       stdout=subprocess.DEVNULL)
        f32 = 0  # GGML_TYPE_F32
        peer = llama_cpp.Llama(out, n_ctx=64, n_batch=64, n_threads=1, logits_all=True, type_k=f32, type_v=f32, verbose=False)
        ids = [(i * 37 + 5) % 256 + 3 for i in range(TOKENS)]
        peer.eval(ids)
        logits = np.array(peer.scores[:TOKENS])
        greedy = []
        while len(greedy) < GREEDY:
            greedy.append(int(peer.scores[peer.n_tokens - 1].argmax()))
            peer.eval(greedy[-1:])
        text_ids = peer.tokenize(TEXT.encode(), add_bos=False, special=True)
        return {
            "peer": f"llama-cpp-python {llama_cpp.__version__}",
            "model": model,
            **settings,
            # Long lists are shown in part.
            "metadata": {key: text for key, text in sorted(peer.metadata.items()) if not text.startswith("[")},
            "text": TEXT,
            "text_ids": text_ids,
            "ids": ids,
            "logits": [[float(f"{value:.7g}") for value in row] for row in logits],
            "greedy": greedy,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vernier", default="build/release/app/vernier")
    parser.add_argument("--out", default=os.path.join(DATA, "peer", "written"))
    args = parser.parse_args()
    for model, settings in MODELS.items():
        with open(os.path.join(args.out, model + ".json"), "w") as file:
            json.dump(golden(args.vernier, model, settings), file, indent=None, separators=(",", ":"))
            file.write("\n")


main()
