#!/usr/bin/env python3
"""A checkpoint of a real shape with random weights, to measure with where nobody wants to carry the real one.

  random_checkpoint.py CONFIG OUT [--tokenizer FOLDER] [--layers N] [--seed 1] [--shard-bytes 4000000000]

CONFIG is a config.json of Hugging Face's (a file, or the folder that has it) of the families gpt_oss, llama, mistral, qwen2 and
qwen3; OUT a folder that is made: config.json, model*.safetensors, and the tokenizer's files of FOLDER where one is given. Numbers
are bf16; experts of gpt_oss whose configuration says mxfp4 are MXFP4, stacked as OpenAI's. Weights come from one random piece
that is read from another place for each tensor: a model of 1 GB takes two seconds. --layers: that many in place of the
configuration's. Standard library alone.
"""
import argparse
import json
import pathlib
import random
import shutil
import struct
import sys

PIECE = (1 << 22) + 6  # bytes of random numbers; no power of two, so that rows differ
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "vocab.json",
             "merges.txt", "tokenizer.model", "generation_config.json")


def attention(config, layer):
    """Names and shapes of a layer's attention; which biases and norms there are is the family's."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    size = config.get("head_dim") or hidden // heads
    outputs = {"q": heads * size, "k": config.get("num_key_value_heads", heads) * size}
    outputs["v"] = outputs["k"]
    family = config["model_type"]
    own = f"{layer}.self_attn."
    for name, rows in outputs.items():
        yield f"{own}{name}_proj.weight", [rows, hidden]
        if family == "qwen2" or config.get("attention_bias", family == "gpt_oss"):
            yield f"{own}{name}_proj.bias", [rows]
    yield f"{own}o_proj.weight", [hidden, heads * size]
    if family != "qwen2" and config.get("attention_bias", family == "gpt_oss"):
        yield f"{own}o_proj.bias", [hidden]
    if family == "qwen3":
        yield f"{own}q_norm.weight", [size]
        yield f"{own}k_norm.weight", [size]
    if family == "gpt_oss":
        yield f"{own}sinks", [heads]


def feed_forward(config, layer):
    hidden, width = config["hidden_size"], config["intermediate_size"]
    own = f"{layer}.mlp."
    if config["model_type"] != "gpt_oss":
        for name in ("gate", "up"):
            yield f"{own}{name}_proj.weight", [width, hidden]
        yield f"{own}down_proj.weight", [hidden, width]
        return
    experts = config.get("num_local_experts", 128)
    yield f"{own}router.weight", [experts, hidden]
    yield f"{own}router.bias", [experts]
    packed = config.get("quantization_config", {}).get("quant_method") == "mxfp4"
    for name, rows, cols in (("gate_up", 2 * width, hidden), ("down", hidden, width)):
        stem = f"{own}experts.{name}_proj"
        if packed:
            if cols % 32:
                sys.exit(f"{stem}: {cols} inputs are no multiple of MXFP4's 32")
            yield f"{stem}_blocks", [experts, rows, cols // 32, 16]
            yield f"{stem}_scales", [experts, rows, cols // 32]
        else:
            yield stem, [experts, cols, rows]
        yield f"{stem}_bias", [experts, rows]


def tensors(config):
    """Every tensor's name and shape, as transformers names and shapes it."""
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    yield "model.embed_tokens.weight", [vocab, hidden]
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        yield f"{layer}.input_layernorm.weight", [hidden]
        yield from attention(config, layer)
        yield f"{layer}.post_attention_layernorm.weight", [hidden]
        yield from feed_forward(config, layer)
    yield "model.norm.weight", [hidden]
    if not config.get("tie_word_embeddings", False):
        yield "lm_head.weight", [vocab, hidden]


def is_bytes(name):
    return name.endswith(("_blocks", "_scales"))


class Numbers:
    """Random bytes of each sort, made once."""

    def __init__(self, seed):
        raw = random.Random(seed).randbytes(PIECE)
        # bf16: the upper byte has the sign and all of the exponent but its last bit.
        small = bytearray(raw)
        small[1::2] = raw[1::2].translate(bytes((i & 0x80) | (0x3B + (i & 1)) for i in range(256)))  # 2^-10 to 2^-6
        ones = bytearray(raw)
        ones[1::2] = b"\x3F" * (PIECE // 2)
        ones[0::2] = raw[0::2].translate(bytes(0x60 + (i & 0x3F) for i in range(256)))  # about 1
        self.pieces = {
            "small": bytes(small),
            "ones": bytes(ones),
            "codes": raw,
            "scales": raw.translate(bytes(119 + i % 3 for i in range(256))),  # 2^-8 to 2^-6, times up to 6
        }

    def write(self, out, name, size, place):
        sort = "codes" if name.endswith("_blocks") else "scales" if name.endswith("_scales") else \
            "ones" if name.endswith("norm.weight") else "small"
        piece = self.pieces[sort]
        at = place * 2 % len(piece)
        while size > 0:
            part = piece[at:at + size]
            out.write(part)
            size -= len(part)
            at = 0


def sizes(all_tensors):
    for name, shape in all_tensors:
        count = 1 if is_bytes(name) else 2
        for extent in shape:
            count *= extent
        yield name, shape, count


def write_shard(path, entries, numbers):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, size in entries:
        header[name] = {"dtype": "U8" if is_bytes(name) else "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, _, size in entries:
            numbers.write(out, name, size, sum(name.encode()) * 7919)


def write_checkpoint(config, out, seed=1, shard_bytes=4_000_000_000):
    out.mkdir(parents=True)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    numbers, shards, filled = Numbers(seed), [[]], 0
    for entry in sizes(tensors(config)):
        if shards[-1] and filled + entry[2] > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(entry)
        filled += entry[2]
    names = ["model.safetensors"] if len(shards) == 1 else \
        [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    for name, entries in zip(names, shards):
        print(f"{name}: {sum(size for _, _, size in entries) / 1e9:.2f} GB", file=sys.stderr)
        write_shard(out / name, entries, numbers)
    if len(shards) > 1:
        index = {"metadata": {"total_size": sum(size for entries in shards for _, _, size in entries)},
                 "weight_map": {name: file for file, entries in zip(names, shards) for name, _, _ in entries}}
        (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="folder whose tokenizer files are copied")
    parser.add_argument("--layers", type=int, help="layers in place of the configuration's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard-bytes", type=int, default=4_000_000_000)
    arguments = parser.parse_args()
    source = arguments.config / "config.json" if arguments.config.is_dir() else arguments.config
    config = json.loads(source.read_text())
    families = ("gpt_oss", "llama", "mistral", "qwen2", "qwen3")
    if config.get("model_type") not in families:
        sys.exit(f"{source}: model_type {config.get('model_type')!r}; expected one of {', '.join(families)}")
    if arguments.out.exists():
        sys.exit(f"{arguments.out} is there already")
    if arguments.layers:
        config["num_hidden_layers"] = arguments.layers
        if "layer_types" in config:
            kinds = config["layer_types"]
            config["layer_types"] = [kinds[i % len(kinds)] for i in range(arguments.layers)]
    write_checkpoint(config, arguments.out, arguments.seed, arguments.shard_bytes)
    for name in TOKENIZER if arguments.tokenizer else ():
        if (arguments.tokenizer / name).exists():
            shutil.copy(arguments.tokenizer / name, arguments.out / name)


if __name__ == "__main__":
    main()
