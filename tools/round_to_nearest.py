#!/usr/bin/env python3
"""A checkpoint as data-free public recipes quantise it, in the dialect that `vernier quantize` writes: what docs/quantising.md compares.

  round_to_nearest.py SOURCE OURS OUT --recipe NAME        (numpy, ml_dtypes)

SOURCE is a folder of numbers (`vernier quantize MODEL --to f32 --rest f32 --out SOURCE`), OURS the same model written by `vernier
quantize --to FORMAT`. OUT is OURS with the codes and scales of every quantised matrix made anew from SOURCE's numbers; whatever
else stands in OURS (configuration, embedding, norms, tokenizer) is taken over. Nothing is searched but where a recipe says so.

  fp8_block      amax / 448 of 128 x 128               DeepSeek, llm-compressor's FP8_BLOCK, ModelOpt
  mxfp8-floor    2^(floor(log2 amax) - 8) of 32        the OCP standard's own rule
  mxfp8-ceil     2^ceil(log2(amax / 448)) of 32        ModelOpt, Transformer Engine
  mxfp8-round    the same of amax rounded to 2 bits    compressed-tensors (llm-compressor)
  mxfp4-floor    2^(floor(log2 amax) - 2) of 32        the OCP standard's own rule, llama.cpp
  mxfp4-ceil     2^ceil(log2(amax / 6)) of 32          ModelOpt
  mxfp4-round    the same of amax rounded to 2 bits    compressed-tensors (llm-compressor)
  nvfp4          E4M3(amax / 6 / g) of 16, g = amax / (6 x 448), q, k and v (gate and up) sharing g    llm-compressor, ModelOpt
  nvfp4-4over6   the same with amax to code 6 or 4, whichever has the smaller squared error; g = amax / (6 x 256)
"""
import argparse
import json
import os
import shutil

import ml_dtypes
import numpy as np

TYPES = {"F32": np.float32, "BF16": ml_dtypes.bfloat16, "F16": np.float16, "U8": np.uint8, "F8_E4M3": ml_dtypes.float8_e4m3fn}
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
CHUNK = 1 << 16  # groups at once


def open_tensors(folder):
    """Name to (file, type, shape, begin, end)."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        for tensor, of in header.items():
            if tensor != "__metadata__":
                begin, end = of["data_offsets"]
                found[tensor] = (path, of["dtype"], of["shape"], 8 + size + begin, 8 + size + end)
    return found


def read(entry):
    path, kind, shape, begin, end = entry
    data = np.memmap(path, np.uint8, "r")[begin:end]
    return np.frombuffer(data, TYPES[kind]).reshape(shape)


def write(entry, values):
    """In place, so that the header stays true."""
    path, kind, shape, begin, end = entry
    data = np.ascontiguousarray(values.astype(TYPES[kind], copy=False)).reshape(shape).tobytes()
    assert len(data) == end - begin, entry
    with open(path, "r+b") as file:
        file.seek(begin)
        file.write(data)


def to_e4m3(x):
    return np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)


def to_e2m1(x):
    """Codes, one in a byte."""
    return np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15


def of_e2m1(codes):
    return codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def packed(codes):
    return codes[..., ::2] | codes[..., 1::2] << 4


def exponent(amax, rule, largest, emax):
    amax = np.maximum(amax, np.float32(2.0**-120))
    if rule == "ceil":
        return np.ceil(np.log2(amax.astype(np.float64) / largest))
    if rule == "round":  # the mantissa rounded to two bits before its exponent is taken
        amax = ((amax.view(np.uint32) + 0x200000) & 0x7F800000).view(np.float32)
    return np.floor(np.log2(amax)) - emax


def mx(weight, rule, is_fp8):
    groups = weight.reshape(-1, 32)
    codes = np.empty((len(groups), 32), np.uint8)
    scales = np.empty(len(groups), np.uint8)
    for at in range(0, len(groups), CHUNK):
        part = groups[at : at + CHUNK]
        power = exponent(np.abs(part).max(-1), rule, 448 if is_fp8 else 6, 8 if is_fp8 else 2)
        scaled = part / np.exp2(power)[:, None].astype(np.float32)
        codes[at : at + CHUNK] = to_e4m3(scaled).view(np.uint8) if is_fp8 else to_e2m1(scaled)
        scales[at : at + CHUNK] = (power + 127).astype(np.uint8)
    return codes.reshape(weight.shape), scales.reshape(weight.shape[0], -1)


def nvfp4(weight, largest, four_over_six):
    # What is stored is the reciprocal.
    divisor = np.float32(6 * (256 if four_over_six else 448)) / np.float32(largest)
    glob = np.float32(1) / divisor
    groups = weight.reshape(-1, 16)
    amax = np.abs(groups).max(-1, keepdims=True)
    best = None
    for code in (6, 4) if four_over_six else (6,):
        scale = to_e4m3(amax / np.float32(code) / glob)
        step = scale.astype(np.float32) * glob
        codes = to_e2m1(groups / np.where(step == 0, np.float32(1), step))
        noise = ((of_e2m1(codes) * step - groups) ** 2).sum(-1, keepdims=True)
        if best is None:
            best = [codes, scale, noise]
        else:
            better = noise < best[2]
            best = [np.where(better, a, b) for a, b in zip((codes, scale, noise), best)]
    return best[0].reshape(weight.shape), best[1].reshape(weight.shape[0], -1), divisor


def fp8_block(weight):
    rows, cols = weight.shape
    codes = np.empty(weight.shape, np.uint8)
    scales = np.empty((-(-rows // 128), -(-cols // 128)), np.float32)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            part = np.s_[i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128]
            scales[i, j] = max(np.abs(weight[part]).max() / np.float32(448), np.float32(1e-12))
            codes[part] = to_e4m3(weight[part] / scales[i, j]).view(np.uint8)
    return codes, scales


def largest_of_fused(source, module):
    """The largest number of the matrices that other engines fuse with this one."""
    parent, _, own = module.rpartition(".")
    names = next((names for names in FUSED if own in names), (own,))
    return max(float(np.abs(read(source[f"{parent}.{name}.weight"])).max()) for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("ours")
    parser.add_argument("out")
    parser.add_argument("--recipe", required=True)
    args = parser.parse_args()
    shutil.copytree(args.ours, args.out, dirs_exist_ok=True)
    source, out = open_tensors(args.source), open_tensors(args.out)
    kind, _, rule = args.recipe.partition("-")
    count = 0
    for name in out:
        module = name.rsplit(".", 1)[0]
        is_codes = name.endswith(".weight_packed") or (name.endswith(".weight") and out[name][1] == "F8_E4M3")
        if not is_codes:
            continue
        weight = read(source[module + ".weight"]).astype(np.float32)
        beside = module + ".weight_scale"
        if kind in ("mxfp4", "mxfp8"):
            codes, scales = mx(weight, rule, kind == "mxfp8")
            write(out[name], codes.view(ml_dtypes.float8_e4m3fn) if kind == "mxfp8" else packed(codes))
            write(out[beside], scales)
        elif kind == "nvfp4":
            codes, scales, divisor = nvfp4(weight, largest_of_fused(source, module), rule == "4over6")
            write(out[name], packed(codes))
            write(out[beside], scales)
            write(out[module + ".weight_global_scale"], np.array([divisor]))
        elif args.recipe == "fp8_block":
            codes, scales = fp8_block(weight)
            write(out[name], codes.view(ml_dtypes.float8_e4m3fn))
            write(out[beside + "_inv"], scales)
        else:
            parser.error(f"no recipe {args.recipe}")
        count += 1
    print(f"{args.out}: {count} matrices by {args.recipe}")


if __name__ == "__main__":
    main()
