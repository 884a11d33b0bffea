#!/usr/bin/env python3
"""Writes tests/data/broken: tiny checkpoints, each with one defect, for `vernier lint` and its test.

Needs Python alone. The same files come out each time. What `lint` must say of each stands in tests/unit/lint/lint_test.cc.

usage: make_broken_checkpoints.py [FOLDER]
"""

import json
import pathlib
import random
import shutil
import struct
import sys

HIDDEN, VOCAB = 32, 8
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": HIDDEN,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "num_hidden_layers": 1, "vocab_size": VOCAB,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "eos_token_id": 2,
}  # fmt: skip
MATRICES = {
    "self_attn.q_proj": (32, 32), "self_attn.k_proj": (16, 32), "self_attn.v_proj": (16, 32), "self_attn.o_proj": (32, 32),
    "mlp.gate_proj": (32, 32), "mlp.up_proj": (32, 32), "mlp.down_proj": (32, 32),
}  # fmt: skip
DOWN = "model.layers.0.mlp.down_proj"
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
rng = random.Random(5)


def f32(values):
    return struct.pack(f"<{len(values)}f", *values)


def bf16(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def size(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def dense(shape, centre=0.0):
    return "BF16", list(shape), bf16([centre + rng.uniform(-0.2, 0.2) for _ in range(size(shape))])


def scalar(value):
    return "F32", [], f32([value])


def e4m3(shape):
    """Codes of every kind but NaN; minus zero, as any rounding of small numbers makes it, first."""
    codes = [rng.randrange(0x20, 0x7F) | rng.choice((0, 0x80)) for _ in range(size(shape))]
    return "F8_E4M3", list(shape), bytes([0x80, *codes[1:]])


def nibbles(shape):
    return "U8", [shape[0], shape[1] // 2], bytes(rng.randrange(256) for _ in range(size(shape) // 2))


def plain(layers=1):
    """A llama of BF16 numbers: name -> (dtype, shape, bytes)."""
    tensors = {"model.embed_tokens.weight": dense((VOCAB, HIDDEN)), "model.norm.weight": dense((HIDDEN,), 1.0)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = dense((HIDDEN,), 1.0)
        for name, shape in MATRICES.items():
            tensors[f"{prefix}{name}.weight"] = dense(shape)
    return tensors


def quantised(form):
    """The same with each matrix of the layer in a narrow format."""
    tensors = plain()
    for name, shape in MATRICES.items():
        module = f"model.layers.0.{name}"
        tensors[f"{module}.weight"] = e4m3(shape)
        if form == "fp8":
            tensors[f"{module}.weight_scale"] = scalar(rng.uniform(0.3, 1.7) / 1000)
        elif form == "block":
            scales = [rng.uniform(0.3, 1.7) / 1000 for _ in range(shape[0] // 16 * 2)]
            tensors[f"{module}.weight_scale_inv"] = "F32", [shape[0] // 16, 2], f32(scales)
        elif form == "mxfp8":
            scales = bytes(rng.randrange(114, 118) for _ in range(shape[0]))
            tensors[f"{module}.weight_scale"] = "U8", [shape[0], 1], scales
        else:
            packed = form == "ct-nvfp4"
            del tensors[f"{module}.weight"]
            tensors[f"{module}.{'weight_packed' if packed else 'weight'}"] = nibbles(shape)
            scales = bytes(rng.randrange(0x60, 0x7E) for _ in range(shape[0] * 2))
            tensors[f"{module}.weight_scale"] = "F8_E4M3", [shape[0], 2], scales
            outer = rng.uniform(0.3, 1.7) / 5000
            name = "weight_global_scale" if packed else "weight_scale_2"
            tensors[f"{module}.{name}"] = scalar(1 / outer if packed else outer)
    return tensors


DESCRIBED = {
    "fp8": FP8,
    "block": FP8 | {"weight_block_size": [16, 16], "fmt": "e4m3"},
    "mxfp8": {"quant_method": "modelopt", "quant_algo": "MXFP8", "ignore": ["model.embed_tokens"]},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.embed_tokens"]},
    "ct-nvfp4": {
        "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["model.embed_tokens"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
            "num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "dynamic": False}}},
    },
}  # fmt: skip


def safetensors(tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return with_header(json.dumps(header, separators=(",", ":")), data)


def with_header(text, data):
    return struct.pack("<Q", len(text)) + text.encode() + data


class Folder:
    """A checkpoint that is right, to be made wrong in one place and written."""

    def __init__(self, form=None, layers=1, **config):
        self.tensors = quantised(form) if form else plain(layers)
        self.config = CONFIG | {"num_hidden_layers": layers} | config
        if form:
            self.config["quantization_config"] = dict(DESCRIBED[form])
        self.files = {}

    def put(self, **files):
        self.files |= {name.replace("__", "."): content for name, content in files.items()}
        return self

    def set(self, name, tensor):
        self.tensors[name] = tensor
        return self

    def patch(self, name, at, content):
        dtype, shape, data = self.tensors[name]
        return self.set(name, (dtype, shape, data[:at] + content + data[at + len(content) :]))

    def drop(self, name):
        del self.tensors[name]
        return self

    def quantisation(self, **settings):
        self.config["quantization_config"] |= settings
        return self

    def parts(self):
        """Header and data of its weights, to be written otherwise."""
        whole = safetensors(self.tensors)
        length = struct.unpack("<Q", whole[:8])[0]
        return json.loads(whole[8 : 8 + length]), whole[8 + length :]

    def weights(self, content):
        self.files["model.safetensors"] = content
        return self

    def write(self, path):
        path.mkdir(parents=True)
        files = {"config.json": json.dumps(self.config, indent=1)} | self.files
        if not any(name.endswith(".safetensors") for name in files):
            files["model.safetensors"] = safetensors(self.tensors)
        for name, content in files.items():
            if content is not None:
                (path / name).write_bytes(content.encode() if isinstance(content, str) else content)


def changed_header(change):
    folder = Folder()
    header, data = folder.parts()
    change(header)
    return folder.weights(with_header(json.dumps(header, separators=(",", ":")), data))


def file_defects():
    whole = safetensors(plain())
    yield "weights-truncated", Folder().weights(whole[:-100])
    yield "weights-header-too-long", Folder().weights(struct.pack("<Q", 1 << 40) + whole[8:])
    yield "weights-header-no-json", Folder().weights(with_header('{"model.norm.weight": {', bytes(64)))
    yield "weights-duplicate-tensor", Folder().weights(with_header(
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"ab"))  # fmt: skip

    def overlap(header):
        header["model.norm.weight"]["data_offsets"] = [o - 2 for o in header["model.norm.weight"]["data_offsets"]]

    def hole(header):
        header.pop("model.norm.weight")

    yield "weights-overlap", changed_header(overlap)
    yield "weights-hole", changed_header(hole)
    yield "weights-unknown-dtype", changed_header(lambda header: header["model.norm.weight"].update(dtype="F7"))
    yield "weights-shape-against-bytes", changed_header(lambda header: header["model.norm.weight"].update(shape=[31]))
    yield "weights-absent", Folder().put(model__safetensors=None)
    yield "config-truncated", Folder().put(config__json=json.dumps(CONFIG)[:-9])
    yield "config-key-twice", Folder().put(config__json=json.dumps(CONFIG)[:-1] + ', "vocab_size": 9}')


def shards(move=lambda index: None, absent=None):
    folder = Folder()
    names = list(folder.tensors)
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = {name: files[i % 2] for i, name in enumerate(names)}
    contents = {file: safetensors({n: folder.tensors[n] for n in names if index[n] == file}) for file in files}
    move(index)
    folder.files |= {file: content for file, content in contents.items() if file != absent}
    return folder.put(model__safetensors__index__json=json.dumps({"metadata": {}, "weight_map": index}))


def shard_defects():
    second = "model-00002-of-00002.safetensors"
    yield "shard-absent", shards(absent=second)
    yield "index-names-absent-tensor", shards(lambda index: index.update({"model.layers.0.mlp.extra.weight": second}))
    yield "index-names-wrong-shard", shards(lambda index: index.update({"model.embed_tokens.weight": second}))
    yield "stray-weight-file", shards().put(model__safetensors=safetensors({"model.norm.weight": scalar(1)}))


def config_defects():
    yield "config-key-unknown", Folder(logit_temperature=2.0)
    yield "config-model-type-unknown", Folder(model_type="lama", architectures=["LamaForCausalLM"])
    qwen = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "layer_types": ["full_attention"] * 3}
    yield "config-layer-types-length", Folder(**qwen)
    yield "config-rope-spellings-disagree", Folder(rope_theta=10000.0, rope_parameters={"rope_theta": 500000.0, "rope_type": "default"})  # fmt: skip
    yield "config-rope-type-unknown", Folder(rope_scaling={"rope_type": "bent", "factor": 2.0})
    yarn = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16}
    yield "config-context-beyond-yarn", Folder(rope_scaling=yarn)
    yield "config-kv-heads-no-divisor", Folder(num_attention_heads=3, num_key_value_heads=2)
    yield "config-vocabulary-against-embedding", Folder(vocab_size=10)
    yield "tensor-missing", Folder().drop("model.layers.0.mlp.up_proj.weight")  # fmt: skip
    fewer = Folder(layers=2)
    fewer.config["num_hidden_layers"] = 1
    yield "config-fewer-layers-than-tensors", fewer
    yield "config-eos-out-of-range", Folder(eos_token_id=[2, 8])
    yield "tied-head-differs", Folder().set("lm_head.weight", dense((VOCAB, HIDDEN)))
    yield "untied-head-missing", Folder(tie_word_embeddings=False)
    moe = {
        "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 3, "num_experts_per_tok": 1,
        "moe_intermediate_size": 8, "decoder_sparse_step": 1, "norm_topk_prob": True, "mlp_only_layers": [],
    }  # fmt: skip
    folder = Folder(**moe)
    prefix = "model.layers.0."
    for name in ("gate_proj", "up_proj", "down_proj"):
        folder.drop(f"{prefix}mlp.{name}.weight")
        for expert in range(2):
            shape = (HIDDEN, 8) if name == "down_proj" else (8, HIDDEN)
            folder.set(f"{prefix}mlp.experts.{expert}.{name}.weight", dense(shape))
    for name in ("q_norm", "k_norm"):
        folder.set(f"{prefix}self_attn.{name}.weight", dense((16,), 1.0))
    yield "experts-fewer-than-config", folder.set(f"{prefix}mlp.gate.weight", dense((3, HIDDEN)))


def quantisation_defects():
    yield "quantisation-method-unknown", Folder(quantization_config={"quant_method": "quark"})
    yield "quantisation-algorithm-unknown", Folder("nvfp4").quantisation(quant_algo="FP7")
    yield "quantisation-key-unknown", Folder("fp8").quantisation(weight_roundings="odd")
    legacy = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": []}}
    yield "quantisation-sources-disagree", Folder("nvfp4").put(hf_quant_config__json=json.dumps(legacy))
    yield "exclusion-matches-nothing", Folder("fp8").quantisation(ignored_layers=["model.layers.7.mlp"])
    q = "model.layers.0.self_attn.q_proj"
    split = Folder("fp8").quantisation(ignored_layers=[q]).set(f"{q}.weight", dense((32, 32)))
    yield "exclusion-splits-fused-weight", split.drop(f"{q}.weight_scale")
    yield "exclusion-lists-differ", Folder("fp8").quantisation(ignored_layers=["lm_head"], modules_to_not_convert=["model.norm"])  # fmt: skip
    yield "layer-not-quantised-as-described", Folder("fp8").drop(f"{DOWN}.weight_scale").set(f"{DOWN}.weight", dense((32, 32)))  # fmt: skip
    undescribed = Folder("fp8")
    undescribed.config.pop("quantization_config")
    for name in [n for n in undescribed.tensors if n.endswith("weight_scale") and n != f"{DOWN}.weight_scale"]:
        undescribed.drop(name).set(name.replace("weight_scale", "weight"), dense(MATRICES[name[15:-13]]))
    yield "fp8-without-description", undescribed
    yield "block-size-zero", Folder("block").quantisation(weight_block_size=[16, 0])


def scale_defects():
    scale = f"{DOWN}.weight_scale"
    yield "scale-missing", Folder("fp8").drop(scale)
    yield "scale-twice", Folder("fp8").set(f"{DOWN}.weight_scale_inv", scalar(0.001))
    yield "scale-shape", Folder("block").set(f"{scale}_inv", ("F32", [3, 2], f32([0.001] * 6)))
    for name, value in (("zero", 0.0), ("negative", -0.5), ("nan", float("nan")), ("infinite", float("inf"))):
        yield f"scale-{name}", Folder("fp8").set(scale, scalar(value))
    yield "scale-e8m0-nan", Folder("mxfp8").patch(scale, 5, b"\xff")
    yield "scale-e4m3-nan", Folder("nvfp4").patch(scale, 5, b"\x7f")
    yield "scale-unused", Folder("fp8").set("model.layers.0.self_attn.kk_scale", scalar(0.5))
    yield "scale-no-power-of-two", Folder("block").quantisation(scale_fmt="ue8m0")
    yield "scale-upside-down", Folder("fp8").set(scale, scalar(1 / 0.0007))
    yield "nvfp4-global-scale-upside-down", Folder("nvfp4").set(f"{scale}_2", scalar(1 / 0.00017))
    yield "nvfp4-global-scale-multiplies", Folder("ct-nvfp4").set(f"{DOWN}.weight_global_scale", scalar(0.00017))
    yield "nvfp4-global-scale-missing", Folder("nvfp4").drop(f"{scale}_2")
    yield "input-scale-upside-down", Folder("fp8").set(f"{DOWN}.input_scale", scalar(1300.0))
    yield "input-scale-missing", Folder("fp8").quantisation(activation_scheme="static").set_inputs()


def set_inputs(self):
    for name in MATRICES:
        if name != "mlp.down_proj":
            self.set(f"model.layers.0.{name}.input_scale", scalar(rng.uniform(0.3, 1.7) / 20))
    return self


Folder.set_inputs = set_inputs


def number_defects():
    weight = f"{DOWN}.weight"
    yield "fp8-nan-codes", Folder("fp8").patch(weight, 40, b"\x7f\xff")
    dtype, shape, codes = e4m3((32, 32))
    fnuz = bytes(code if code != 0x80 else 0x7F for code in codes)
    yield "fp8-fnuz-codes-called-fn", Folder("fp8").set(weight, (dtype, shape, fnuz))
    yield "fp8-fn-codes-called-fnuz", Folder("fp8").set(weight, ("F8_E4M3FNUZ", shape, codes))
    yield "weights-all-zero", Folder().set(weight, ("BF16", [32, 32], bytes(2048)))
    yield "norm-with-nan", Folder().patch("model.norm.weight", 10, b"\xc0\x7f")
    yield "weight-infinite", Folder().patch(weight, 100, b"\x80\x7f")
    yield "bias-unused", Folder().set(f"{DOWN}.bias", dense((HIDDEN,)))


def cached(scales, **config):
    folder = Folder(layers=2, **config)
    for layer, (k, v) in enumerate(scales):
        for of, value in (("k", k), ("v", v)):
            if value is not None:
                folder.set(f"model.layers.{layer}.self_attn.{of}_proj.{of}_scale", scalar(value))
    return folder


def cache_defects():
    described = {"quantization_config": {
        "quant_method": "modelopt", "quant_algo": None, "ignore": ["*"], "kv_cache_scheme": {"type": "float", "num_bits": 8}}}  # fmt: skip
    yield "cache-scales-one", cached([(1, 1), (1, 1)], **described)
    yield "cache-scales-absent", cached([], **described)
    yield "cache-scale-of-one-layer-missing", cached([(0.06, 0.03), (0.07, None)], **described)
    yield "cache-scale-never-set", cached([(0.06, 0.03), (0.07, -1.0)], **described)
    yield "cache-scales-swapped", cached([(0.006, 0.09), (0.007, 0.08)], **described)
    disagree = cached([(0.06, 0.03), (0.07, 0.04)], **described)
    yield "cache-scales-disagree", disagree.set("model.layers.1.self_attn.k_scale", scalar(0.5))
    heads = cached([(0.06, 0.03), (0.07, None)], **described)
    heads.set("model.layers.1.self_attn.v_scale", ("F32", [3], f32([0.03, 0.04, 0.05])))
    yield "cache-scale-of-other-heads", heads
    names = cached([(0.06, 0.03), (0.07, 0.04)], **described)
    names.set("model.layers.1.self_attn.k_proj.v_scale", names.tensors.pop("model.layers.1.self_attn.v_proj.v_scale"))
    yield "cache-scale-of-other-projection", names


def tokenizer(tokens):
    vocab = {text: i for i, text in enumerate(tokens)}
    added = [{"id": 2, "content": tokens[2], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []},
    }  # fmt: skip


def text_defects():
    good = json.dumps(tokenizer(["a", "b", "</s>", "d", "e", "f", "g", "h"]), indent=1)
    larger = json.dumps(tokenizer(["a", "b", "</s>", "d", "e", "f", "g", "h", "i", "j"]), indent=1)
    yield "tokenizer-larger-than-embedding", Folder().put(tokenizer__json=larger)
    yield "tokenizer-truncated", Folder().put(tokenizer__json=good[:-20])
    yield "eos-token-unknown", Folder().put(tokenizer__json=good, tokenizer_config__json='{"eos_token": "<|end|>"}')
    moved = '{"eos_token": "</s>", "added_tokens_decoder": {"3": {"content": "</s>"}}}'
    yield "added-token-of-other-id", Folder().put(tokenizer__json=good, tokenizer_config__json=moved)
    yield "chat-template-broken", Folder().put(chat_template__jinja="{% for m in messages %}{{ m.content }}")
    yield "chat-template-without-messages", Folder().put(chat_template__jinja="Hello {{ name }}")


def gguf(metadata, tensors, alignment=32, shift=0):
    """`metadata`: key -> (type, bytes); `tensors`: name -> (shape innermost first, type, bytes)."""
    text = lambda t: struct.pack("<Q", len(t)) + t.encode()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, (kind, value) in metadata.items():
        head += text(key) + struct.pack("<I", kind) + value
    data = b""
    for name, (shape, kind, content) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", e) for e in shape)
        head += struct.pack("<IQ", kind, max(0, len(data) + (shift if data else 0)))
        data += content + bytes(-len(content) % alignment)
    return head + bytes(-len(head) % alignment) + data


def gguf_model(block_scale=None, tokens=VOCAB, **changes):
    u32, f, s = lambda v: (4, struct.pack("<I", v)), lambda v: (6, struct.pack("<f", v)), lambda t: (8, struct.pack("<Q", len(t)) + t.encode())  # fmt: skip
    metadata = {
        "general.architecture": s("llama"), "llama.block_count": u32(1), "llama.context_length": u32(64),
        "llama.embedding_length": u32(HIDDEN), "llama.feed_forward_length": u32(HIDDEN), "llama.attention.head_count": u32(2),
        "llama.attention.head_count_kv": u32(1), "llama.attention.layer_norm_rms_epsilon": f(1e-5), "llama.rope.freq_base": f(10000.0),
    }  # fmt: skip
    if tokens != VOCAB:
        names = ["a", "b", "ab"] + [f"t{i}" for i in range(3, tokens)]
        texts = b"".join(struct.pack("<Q", len(name)) + name.encode() for name in names)
        metadata["tokenizer.ggml.model"] = s("gpt2")
        metadata["tokenizer.ggml.pre"] = s("gpt-2")
        metadata["tokenizer.ggml.tokens"] = 9, struct.pack("<IQ", 8, tokens) + texts
        metadata["tokenizer.ggml.merges"] = 9, struct.pack("<IQQ", 8, 1, 3) + b"a b"
    for key, value in changes.items():
        metadata[key.replace("__", ".")] = value
    q8 = lambda shape: b"".join(struct.pack("<e", 0.002) + bytes(rng.randrange(256) for _ in range(32)) for _ in range(size(shape) // 32))  # fmt: skip
    tensors = {"token_embd.weight": ([HIDDEN, VOCAB], 8, q8((VOCAB, HIDDEN)))}
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        tensors[f"{name}.weight"] = [HIDDEN], 0, f32([rng.uniform(0.9, 1.1) for _ in range(HIDDEN)])
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    for name, shape in zip(names, MATRICES.values(), strict=True):
        tensors[f"blk.0.{name}.weight"] = [shape[1], shape[0]], 8, q8(shape)
    if block_scale:
        shape, kind, content = tensors["blk.0.ffn_down.weight"]
        tensors["blk.0.ffn_down.weight"] = shape, kind, content[:34] + block_scale + content[36:]
    return metadata, tensors


def gguf_defects():
    whole = gguf(*gguf_model())
    yield "gguf-truncated.gguf", whole[:-200]
    yield "gguf-magic.gguf", b"GGML" + whole[4:]
    yield "gguf-version.gguf", whole[:4] + struct.pack("<I", 1) + whole[8:]
    yield "gguf-offset-misaligned.gguf", gguf(*gguf_model(), shift=8)
    yield "gguf-tensors-overlap.gguf", gguf(*gguf_model(), shift=-32)
    yield "gguf-alignment-type.gguf", gguf(*gguf_model(general__alignment=(8, struct.pack("<Q", 2) + b"32")))
    yield "gguf-metadata-type.gguf", gguf(*gguf_model(llama__block_count=(8, struct.pack("<Q", 1) + b"1")))
    yield "gguf-key-unknown.gguf", gguf(*gguf_model(llama__attention__tilt=(6, struct.pack("<f", 0.5))))
    yield "gguf-block-scale-nan.gguf", gguf(*gguf_model(block_scale=b"\x00\x7e"))
    yield "gguf-vocabulary-larger-than-embedding.gguf", gguf(*gguf_model(tokens=12))
    split = {"split__no": (2, struct.pack("<H", 0)), "split__count": (2, struct.pack("<H", 2)), "split__tensors__count": (5, struct.pack("<i", 22))}  # fmt: skip
    yield "gguf-part-absent-00001-of-00002.gguf", gguf(*gguf_model(**split))
    yield "gguf-trailing-bytes.gguf", whole + bytes(64)


def single_files():
    yield "codes-alone.safetensors", safetensors({"a.weight": e4m3((4, 8)), "b.weight": e4m3((4, 8)), "b.weight_scale": scalar(0.01)})  # fmt: skip


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/data/broken"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for make in (file_defects, shard_defects, config_defects, quantisation_defects, scale_defects, number_defects,
                 cache_defects, text_defects):  # fmt: skip
        for name, folder in make():
            folder.write(root / name)
    for make in (gguf_defects, single_files):
        for name, content in make():
            (root / name).write_bytes(content)
    print(f"{len(list(root.iterdir()))} checkpoints under {root}")


if __name__ == "__main__":
    main()
