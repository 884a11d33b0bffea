#!/usr/bin/env python3
"""Reads what `vernier quantize` writes with libraries that nobody here wrote, and compares every number with ours.

  check_written_models.py [--vernier build/release/app/vernier] [--gguf MODEL.gguf] [--format mxfp4 ...]

Folders: each tiny checkpoint of tests/data/models is written in each format. compressed-tensors' own decompressors make numbers of
the codes (safetensors and ml_dtypes of the dialect `fp8`), and must give what `vernier quantize OUT --to f32` decodes, to the bit but
for their own roundings (tolerance). Then transformers loads the folder with all its configuration and its logits are compared.
GGUF: MODEL.gguf is written in each format; the package gguf must decode every tensor to our numbers, and llama.cpp's logits must
be ours. What is not installed is skipped by name; the exit code is 1 if anything differs.
(torch, transformers, compressed-tensors, safetensors, ml_dtypes; gguf, llama-cpp-python)
"""
import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    np = None

FOLDERS = ["llama", "qwen3", "mixtral", "gpt-oss"]
FOLDER_FORMATS = ["fp8", "fp8_channel", "fp8_block", "mxfp8", "mxfp4", "nvfp4"]
GGUF_FORMATS = ["q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0", "q3_k", "q2_k", "mxfp4", "nvfp4"]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "models")
failed = 0


def report(ok, what, detail=""):
    global failed
    failed += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {what} {detail}", flush=True)


def missing(names):
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            return f"{name} ({error})"
    return None


class Vernier:
    def __init__(self, program):
        self.program = program

    def __call__(self, *words):
        subprocess.run([self.program, *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def quantise(self, source, to, out):
        self("quantize", source, "--to", to, "--rest", "f32", "--out", out, "--allow-requantize")
        return out

    def logits(self, model, ids, folder):
        from safetensors.numpy import load_file

        out = os.path.join(folder, "logits.safetensors")
        self("logits", model, "--ids", json.dumps([ids]), "--out", out, "--numerics", "exact", "--kv-cache-dtype", "f32")
        found = load_file(out)
        return next(value for name, value in found.items() if "logits" in name).reshape(len(ids), -1)


class Worst:
    """The largest of many differences, and where; what is not a number is the largest of all."""

    def __init__(self):
        self.apart, self.at, self.count = 0.0, "none", 0

    def add(self, apart, at):
        self.count += 1
        if not apart <= self.apart and self.apart == self.apart:
            self.apart, self.at = apart, at

    def within(self, bound):
        return self.count > 0 and self.apart <= bound

    def __str__(self):
        return f"largest difference {self.apart:.1e} in {self.at}"


def with_global_scales(numbers, scales):
    """One scale for a matrix, or one for each of the matrices that are stacked."""
    return (numbers.reshape(len(scales), -1) * scales[:, None]).reshape(numbers.shape)


def difference(a, b):
    """The largest, relative to the largest number."""
    if np.shape(a) != np.shape(b):
        raise ValueError(f"shapes {np.shape(a)} and {np.shape(b)}")
    return float(np.abs(np.asarray(a, np.float64) - b).max() / max(np.abs(b).max(), 1e-30))


def tensors_of(folder):
    """Name to torch tensor, of all files."""
    from safetensors import safe_open

    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(folder, name), "pt") as file:
                found.update({key: file.get_tensor(key) for key in file.keys()})
    return found


def decoded_by_others(folder):
    """Module to numbers, for each that has codes."""
    import torch

    config = json.load(open(os.path.join(folder, "config.json")))["quantization_config"]
    tensors = tensors_of(folder)
    modules = {}
    for name, tensor in tensors.items():
        module, _, own = name.rpartition(".")
        modules.setdefault(module, {})[own] = tensor
    numbers = {}
    for module, own in modules.items():
        if not any(key.startswith("weight_scale") for key in own):
            continue
        own.pop("bias", None)
        if config["quant_method"] == "fp8":  # x = code x scale, whatever the scale is called
            scale = own.get("weight_scale_inv", own.get("weight_scale")).float()
            if scale.ndim == 2:
                scale = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
                scale = scale[: own["weight"].shape[0], : own["weight"].shape[1]]
            numbers[module] = (own["weight"].float() * scale).numpy()
            continue
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationScheme

        group = config["config_groups"]["group_0"]
        compressor = BaseCompressor.get_value_from_registry(group["format"])
        scheme = QuantizationScheme(**group)
        numbers[module] = compressor.decompress(own, scheme)["weight"].to(torch.float32).numpy()
    return numbers


def check_folder(vernier, model, to, work):
    out = vernier.quantise(os.path.join(DATA, model), to, os.path.join(work, f"{model}-{to}"))
    ours = tensors_of(vernier.quantise(out, "f32", out + "-f32"))
    theirs = decoded_by_others(out)
    worst = Worst()
    for module, numbers in theirs.items():
        worst.add(difference(numbers, ours[module + ".weight"].float().numpy()), module)
    # Their decompressors may hand out bfloat16.
    report(worst.within(2**-8), f"{model} {to}", f"{worst.count} matrices, {worst}")
    return out


def check_transformers(vernier, out, what, work):
    """The folder as transformers configures and loads it; its numbers go into a model without quantisation, as some schemes also
    round activations."""
    import torch
    import transformers

    config = json.load(open(os.path.join(out, "config.json")))
    stored = config.pop("quantization_config")
    kind = transformers.FineGrainedFP8Config if stored["quant_method"] == "fp8" else transformers.CompressedTensorsConfig
    kept = {"weight_block_size": tuple(stored["weight_block_size"])} if "weight_block_size" in stored else {}
    asked = kind(dequantize=True, **kept)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(out, quantization_config=asked, dtype=torch.bfloat16)
    loaded_numbers = {name: tensor.float() for name, tensor in loaded.state_dict().items()}
    plain = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config), dtype=torch.float32)
    plain.load_state_dict({name: loaded_numbers[name] for name in plain.state_dict()})
    ids = [3, 17, 200, 41, 5, 99, 250, 8]
    with torch.no_grad():
        theirs = plain(torch.tensor([ids])).logits[0].numpy()
    apart = difference(theirs, vernier.logits(out, ids, work))
    # Some of its decompressors hand out bfloat16.
    report(apart <= 2e-2, f"{what} in transformers", f"logits differ by {apart:.1e}")


def check_gguf(vernier, source, to, work):
    import gguf

    out = vernier.quantise(source, to, os.path.join(work, to + ".gguf"))
    plain = vernier.quantise(out, "f32", os.path.join(work, to + "-f32.gguf"))
    ours = {tensor.name: tensor for tensor in gguf.GGUFReader(plain).tensors}
    written = {tensor.name: tensor for tensor in gguf.GGUFReader(out).tensors}
    scales = {name: np.float32(tensor.data).reshape(-1) for name, tensor in written.items() if name.endswith(".scale")}
    if written.keys() - scales.keys() != ours.keys():
        raise ValueError(f"as f32 the file has other tensors: {sorted((written.keys() - scales.keys()) ^ ours.keys())}")
    worst = Worst()
    for tensor in (written[name] for name in ours):
        numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        numbers = with_global_scales(numbers, scales.get(tensor.name.rsplit(".", 1)[0] + ".scale", np.ones(1, np.float32)))
        expected = gguf.quants.dequantize(ours[tensor.name].data, ours[tensor.name].tensor_type)
        worst.add(difference(numbers.reshape(-1), expected.reshape(-1)), tensor.name)
    report(worst.within(1e-6), f"{to}.gguf", f"{worst.count} tensors by the package gguf, {worst}")
    return out


def check_llama_cpp(vernier, out, what, work):
    import llama_cpp

    model = llama_cpp.Llama(out, n_ctx=64, n_threads=2, logits_all=True, verbose=False)
    ids = model.tokenize(b"The vernier scale reads a fine value off a coarse one.", special=False)
    model.eval(ids)
    theirs = model.scores[: len(ids)]
    ours = vernier.logits(out, ids, work)
    agree = float((theirs.argmax(-1) == ours.argmax(-1)).mean())
    apart = float(np.sqrt(((theirs - ours) ** 2).mean()) / ours.std())
    # Its products quantise activations to 8 bits, and its cache keeps 16: a model as it was fetched differs by 6e-2, too.
    report(apart <= 1e-1, f"{what} in llama.cpp", f"logits differ by {apart:.1e} (root mean square), top-1 {100 * agree:.0f} %")


def run(check, what, *args):
    try:
        return check(*args)
    except Exception as error:  # a library refused what we wrote: that is the finding
        report(False, what, f"{type(error).__name__}: {str(error)[:300]}")
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vernier", default="build/release/app/vernier")
    parser.add_argument("--gguf", default="", help="a GGUF file whose formats are written; without one folders alone are checked")
    parser.add_argument("--format", nargs="*", default=[])
    args = parser.parse_args()
    vernier = Vernier(args.vernier)
    if np is None:
        print("skip all: no numpy")
        return

    def wanted(formats):
        return [to for to in formats if not args.format or to in args.format]

    with tempfile.TemporaryDirectory() as work:
        lacks = missing(["torch", "safetensors", "compressed_tensors"])
        no_transformers = missing(["transformers"])
        if lacks:
            print(f"skip folders: no {lacks}")
        for model in [] if lacks else FOLDERS:
            for to in wanted(FOLDER_FORMATS):
                if (model, to) == ("gpt-oss", "fp8_block"):
                    continue  # 96 rows of gate and of up share blocks of 128: refused by name
                out = run(check_folder, f"{model} {to}", vernier, model, to, work)
                # transformers reads blocks that end with their matrix as smaller ones all over it.
                if out and model in ("llama", "qwen3") and to != "fp8_block" and not no_transformers:
                    run(check_transformers, f"{model} {to} in transformers", vernier, out, f"{model} {to}", work)
        if no_transformers:
            print(f"skip logits of folders: no {no_transformers}")
        lacks = missing(["gguf"]) or ("--gguf MODEL.gguf" if not args.gguf else None)
        no_llama = missing(["llama_cpp"])
        if lacks:
            print(f"skip GGUF files: no {lacks}")
        for to in [] if lacks else wanted(GGUF_FORMATS):
            out = run(check_gguf, f"{to}.gguf", vernier, args.gguf, to, work)
            if out and not no_llama:
                run(check_llama_cpp, f"{to}.gguf in llama.cpp", vernier, out, f"{to}.gguf", work)
            for file in os.listdir(work):
                if file.endswith(".gguf"):
                    os.remove(os.path.join(work, file))
        if no_llama:
            print(f"skip logits of GGUF files: no {no_llama}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
