#!/usr/bin/env python3
"""Compares a middle-sized random gpt-oss (8 layers, 32 experts of width 1440, heads of 64) with transformers.

usage: compare_gpt_oss.py VERNIER FOLDER [cpu|cuda]

Writes an MXFP4 checkpoint into FOLDER as the public ones are stored, takes float32 logits of transformers (experts
dequantised, eager attention) and of `vernier logits` on that backend (cpu), and prints the relative RMS of their difference.
Needs torch and transformers. Exit code 1 where exact numerics differ by more than 1e-3, or fast ones by more than 5e-2 in the
median on the CPU, whose rows are int8, and 2e-2 on a GPU, where they are bf16; what transformers in bf16 does there is told.
"""
import json
import pathlib
import subprocess
import sys
import time

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GptOssConfig, GptOssForCausalLM, Mxfp4Config

HIDDEN, WIDTH, EXPERTS, LAYERS, VOCABULARY = 1440, 1440, 32, 8, 8192


def write_checkpoint(folder):
    torch.manual_seed(7)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = GptOssConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=WIDTH, num_hidden_layers=LAYERS,
        num_local_experts=EXPERTS, num_experts_per_tok=4, num_attention_heads=32, num_key_value_heads=4, head_dim=64,
        sliding_window=128, max_position_embeddings=131072, tie_word_embeddings=False, eos_token_id=2, pad_token_id=0)
    with torch.device("meta"):
        names = GptOssForCausalLM(config).state_dict()
    tensors = {}
    for name, meta in names.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            rows, cols = meta.shape[2], meta.shape[1]  # held transposed
            # Any nibble is an E2M1 number; scales near 2^-7 keep the numbers near 0.02.
            tensors[name + "_blocks"] = torch.randint(0, 256, (EXPERTS, rows, cols // 32, 16), dtype=torch.uint8, device=device)
            tensors[name + "_scales"] = torch.randint(118, 122, (EXPERTS, rows, cols // 32), dtype=torch.uint8, device=device)
        elif "norm" in name:
            tensors[name] = 1 + 0.1 * torch.randn(meta.shape, device=device)
        elif name.endswith(("bias", "sinks")):
            tensors[name] = 0.5 * torch.randn(meta.shape, device=device)
        else:
            tensors[name] = (1.0 if "embed" in name else 0.03) * torch.randn(meta.shape, device=device)
    tensors = {n: (t if t.dtype == torch.uint8 else t.to(torch.bfloat16)).contiguous().cpu() for n, t in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    values = config.to_dict() | {"architectures": ["GptOssForCausalLM"], "dtype": "bfloat16"}
    values["quantization_config"] = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (folder / "config.json").write_text(json.dumps(values, indent=2, default=str))


def reference(folder, ids, dtype):
    model = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=Mxfp4Config(dequantize=True), dtype=dtype, attn_implementation="eager")
    model = model.to(dtype).eval()
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = False
        model = model.cuda()
    with torch.no_grad():
        return [model(torch.tensor([row], device=model.device)).logits[0].float().cpu() for row in ids]


def relative_rms(ours, wanted):
    spread = (wanted - wanted.mean(-1, keepdim=True)).pow(2).mean(-1).sqrt()
    return (ours - wanted).pow(2).mean(-1).sqrt() / spread


def main():
    vernier, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    backend = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    folder.mkdir(parents=True, exist_ok=True)
    start = time.time()
    write_checkpoint(folder)
    generator = torch.Generator().manual_seed(1)
    ids = [torch.randint(0, VOCABULARY, (n,), generator=generator).tolist() for n in (300, 40, 1)]
    (folder / "ids.json").write_text(json.dumps(ids))
    print(f"written, {time.time() - start:.0f} s", flush=True)
    wanted = reference(folder, ids, torch.float32)
    print(f"reference, {time.time() - start:.0f} s", flush=True)
    if backend != "cpu":
        theirs = reference(folder, ids, torch.bfloat16)
        errors = torch.cat([relative_rms(a, b) for a, b in zip(theirs, wanted)])
        print(f"transformers in bf16: relative RMS median {errors.median():.2e}, {time.time() - start:.0f} s", flush=True)
    failed = False
    for numerics, chunk, bound in (("exact", 512, 1e-3), ("exact", 7, 1e-3), ("fast", 512, 5e-2 if backend == "cpu" else 2e-2)):
        out = folder.parent / (folder.name + "-logits.safetensors")  # a file of the folder would be a part of the model
        subprocess.run([vernier, "logits", str(folder), "--ids", str(folder / "ids.json"), "--out", str(out), "--numerics",
                        numerics, "--kv-cache-dtype", "f32", "--chunk", str(chunk), "--backend", backend], check=True)
        ours = load_file(out)
        errors = torch.cat([relative_rms(ours[f"logits.{i}"], wanted[i]) for i in range(len(ids))])
        # Under fast numerics a near tie in routing may flip and change its token whole.
        worst = errors.max() if numerics == "exact" else errors.median()
        failed |= not worst <= bound
        print(f"{numerics}, chunks of {chunk}: relative RMS median {errors.median():.2e}, worst {errors.max():.2e}; bound "
              f"{bound:.0e}, {time.time() - start:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
