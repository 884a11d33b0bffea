#!/usr/bin/env python3
"""A tiny random BERT, what transformers answers for it, and what sentence-transformers answers for all-MiniLM-L6-v2.

    pip install torch==2.11.0 transformers==5.17.0 sentence-transformers==6.2.0
    python3 tools/make_encoder_goldens.py tests/data/models                 # bert/
    python3 tools/make_encoder_goldens.py tests/data/models --model FOLDER  # and all-minilm-l6-v2.jsonl of that folder

bert/ is a folder as sentence-transformers writes it, with bf16 weights and the tokenizer of tests/data/tokenizers, and
    golden.safetensors   input_ids [tokens] i32 of texts one after another, lengths [texts] i32, hidden [tokens, hidden]
                         f32: the last hidden state of each text alone, float32, eager attention
    sentences.jsonl      "text", "ids", and "mean" and "cls": its vector of unit length under either pooling
"""

import argparse
import json
import math
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = [3, 1, 17, 40, 2, 9]
TINY_TEXTS = ["the", "The unaffable caf\u00e9", "can't", "[CLS] xxx 1234!", "\u4e2d\u6587", "the the the"]
TEXTS = [
    "This is an example sentence",
    "Each sentence is converted",
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m \u6771\u4eac \u041c\u043e\u0441\u043a\u0432\u0430",
    "def f(x): return x ** 2  # [MASK] \U0001f600",
    "?",
    "word " * 100,
]


def randomise(model: BertModel, seed: int) -> None:
    """Weights large enough that every table, bias and norm shows in the hidden states."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            r = torch.randn(weight.shape, generator=generator)
            if "LayerNorm.weight" in name:
                value = 1 + 0.3 * r
            elif weight.dim() == 1:
                value = 0.2 * r
            elif "embeddings" in name:
                value = 0.7 * r
            else:
                value = 1.4 * r / math.sqrt(weight.shape[1])
            weight.copy_(value.to(torch.bfloat16).float())


def unit(vector: torch.Tensor) -> list[float]:
    return [round(float(x), 7) for x in vector / vector.norm()]


def write_json(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_folder(model: BertModel, folder: Path) -> Tokenizer:
    weights = {name: weight.to(torch.bfloat16) for name, weight in model.state_dict().items()}
    weights["embeddings.position_ids"] = torch.arange(model.config.max_position_embeddings)[None]
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: weight.contiguous() for name, weight in weights.items()}, folder / "model.safetensors")
    config = {**model.config.to_diff_dict(), "model_type": "bert", "architectures": ["BertModel"]}
    write_json(folder / "config.json", {key: value for key, value in config.items() if not key.startswith("_")})
    kinds = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
    modules = [
        {"idx": index, "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (name, path, kind) in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    pooling = {"word_embedding_dimension": model.config.hidden_size, "pooling_mode_cls_token": False}
    write_json(folder / "1_Pooling/config.json", {**pooling, "pooling_mode_mean_tokens": True})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": False})
    shutil.copyfile(ROOT / "tests/data/tokenizers/mini-wordpiece.json", folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def write_tiny(folder: Path) -> None:
    vocabulary = json.loads((ROOT / "tests/data/tokenizers/mini-wordpiece.json").read_text(encoding="utf-8"))
    config = BertConfig(
        vocab_size=len(vocabulary["model"]["vocab"]), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=44, max_position_embeddings=40, layer_norm_eps=3e-5,
    )  # fmt: skip
    config._attn_implementation = "eager"
    model = BertModel(config).eval()
    randomise(model, 7)
    tokenizer = write_folder(model, folder)
    generator = torch.Generator().manual_seed(8)
    ids = [torch.randint(config.vocab_size, (length,), generator=generator) for length in LENGTHS]

    def run(tokens: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(tokens[None]).last_hidden_state[0]

    golden = {
        "input_ids": torch.cat(ids).int(),
        "lengths": torch.tensor(LENGTHS).int(),
        "hidden": torch.cat([run(tokens) for tokens in ids]),
    }
    save_file(golden, folder / "golden.safetensors")
    with open(folder / "sentences.jsonl", "w", encoding="utf-8") as out:
        for text in TINY_TEXTS:
            tokens = tokenizer.encode(text).ids
            states = run(torch.tensor(tokens))
            line = {"text": text, "ids": tokens, "mean": unit(states.mean(0)), "cls": unit(states[0])}
            out.write(json.dumps(line) + "\n")


def write_real(model: str, path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device="cpu")
    with open(path, "w", encoding="utf-8") as out:
        for text in TEXTS:
            ids = encoder.tokenizer(text)["input_ids"]
            vector = encoder.encode(text)
            out.write(json.dumps({"text": text, "ids": ids, "mean": [round(float(x), 7) for x in vector]}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", help="a folder with all-MiniLM-L6-v2")
    arguments = parser.parse_args()
    write_tiny(arguments.out / "bert")
    if arguments.model:
        write_real(arguments.model, arguments.out / "all-minilm-l6-v2.jsonl")


if __name__ == "__main__":
    main()
