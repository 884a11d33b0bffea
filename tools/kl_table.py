#!/usr/bin/env python3
"""The table of docs/quantising.md: KL of a model quantised by `vernier quantize`, and by data-free public recipes, from its source.

  kl_table.py MODEL WORK [--vernier build/release/app/vernier] [--format mxfp4 ...] [--peer mxfp4=FILE.gguf] [--tokens 8192]

MODEL is what `vernier` takes. WORK is a folder for the checkpoints, a few GB, which are made where they are missing. Every line is
`vernier eval kl MODEL CHECKPOINT --numerics exact` on the same tokens of the built-in text; embedding and norms are the source's
(`--rest f32`), so that what is measured is the format. --peer adds a file that another program made. (numpy, ml_dtypes)
"""
import argparse
import json
import os
import subprocess
import sys

RECIPES = {
    "fp8_block": ["fp8_block"],
    "mxfp8": ["mxfp8-floor", "mxfp8-ceil", "mxfp8-round"],
    "nvfp4": ["nvfp4", "nvfp4-4over6"],
    "mxfp4": ["mxfp4-floor", "mxfp4-ceil", "mxfp4-round"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("work")
    parser.add_argument("--vernier", default="build/release/app/vernier")
    parser.add_argument("--format", nargs="*", default=list(RECIPES))
    parser.add_argument("--peer", nargs="*", default=[])
    parser.add_argument("--tokens", default="8192")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)

    def vernier(*words):
        return subprocess.run([args.vernier, *words, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout

    def folder(name):
        return os.path.join(args.work, name)

    def quantised(to, name):
        if not os.path.exists(folder(name)):
            vernier("quantize", args.model, "--to", to, "--rest", "f32", "--out", folder(name))
        return folder(name)

    source = quantised("f32", "source")
    print("| format | by | mean KL, nats | top-1 | perplexity |\n| --- | --- | --- | --- | --- |", flush=True)
    for kind in args.format:
        ours = quantised(kind, kind)
        rows = [("`vernier quantize`", ours)]
        for recipe in RECIPES[kind]:
            if not os.path.exists(folder(recipe + ".public")):
                tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "round_to_nearest.py")
                command = [sys.executable, tool, source, ours, folder(recipe + ".public"), "--recipe", recipe]
                subprocess.run(command, check=True, stdout=sys.stderr)
            rows.append((recipe, folder(recipe + ".public")))
        rows += [(peer.split("=")[1], peer.split("=")[1]) for peer in args.peer if peer.startswith(kind + "=")]
        for name, path in rows:
            found = json.loads(vernier("eval", "kl", args.model, path, "--numerics", "exact", "--tokens", args.tokens))
            kl = found["kl"]
            print(
                f"| {kind} | {name} | {kl['mean']:.6f} ± {kl['mean_error']:.6f} | {100 * found['top1_agreement']:.2f} % | "
                f"{found['b']['perplexity']:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
