"""Proves that tools/random_checkpoint.py names and shapes tensors as transformers does, whose checkpoints stand in tests/data."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ROOT / "tests/data/models"


def header(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        tensors = json.loads(file.read(size))
    tensors.pop("__metadata__", None)
    return tensors


class RandomCheckpoint(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name) / "made"

    def tearDown(self):
        self.folder.cleanup()

    def make(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "tools/random_checkpoint.py", *map(str, arguments)],
                              capture_output=True, text=True)

    def made(self):
        tensors = {}
        for path in sorted(self.out.glob("*.safetensors")):
            own = header(path)
            end = max(entry["data_offsets"][1] for entry in own.values())
            with open(path, "rb") as file:
                (size,) = struct.unpack("<Q", file.read(8))
            self.assertEqual(path.stat().st_size, 8 + size + end)
            tensors.update(own)
        return tensors

    def test_names_and_shapes_are_those_of_transformers(self):
        for model in ("gpt-oss", "gpt-oss-mxfp4", "llama-tied", "mistral", "qwen2", "qwen3"):
            with self.subTest(model):
                made = self.make(MODELS / model, self.out)
                self.assertEqual(made.returncode, 0, made.stderr)
                expected, found = header(MODELS / model / "model.safetensors"), self.made()
                self.assertEqual({name: entry["shape"] for name, entry in found.items()},
                                 {name: entry["shape"] for name, entry in expected.items()})
                for name, entry in found.items():
                    if "_blocks" in name or "_scales" in name:
                        self.assertEqual(entry["dtype"], expected[name]["dtype"], name)
                self.tearDown()
                self.setUp()

    def test_numbers_are_finite_and_small(self):
        self.make(MODELS / "gpt-oss-mxfp4", self.out)
        data = (self.out / "model.safetensors").read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        for name, entry in self.made().items():
            begin, end = (8 + size + at for at in entry["data_offsets"])
            values = data[begin:end]
            if entry["dtype"] == "BF16":
                numbers = [struct.unpack("<f", b"\0\0" + values[i:i + 2])[0] for i in range(0, len(values), 2)]
                low, high = (0.8, 2) if name.endswith("norm.weight") else (2.0**-10, 2.0**-5)
                self.assertTrue(all(low <= abs(number) < high for number in numbers), name)
            elif name.endswith("_scales"):
                self.assertTrue(all(119 <= code <= 121 for code in values), name)

    def test_a_large_one_is_cut_into_shards(self):
        self.make(MODELS / "llama-tied", self.out, "--shard-bytes", 30000, "--layers", 2)
        index = json.loads((self.out / "model.safetensors.index.json").read_text())
        self.assertGreater(len(set(index["weight_map"].values())), 1)
        for name, file in index["weight_map"].items():
            self.assertIn(name, header(self.out / file))
        self.assertNotIn("model.layers.2.mlp.up_proj.weight", index["weight_map"])

    def test_what_it_does_not_know_is_refused(self):
        refused = self.make(MODELS / "bert", self.out)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("model_type 'bert'", refused.stderr)
        self.assertFalse(self.out.exists())
        self.out.mkdir()
        self.assertIn("is there already", self.make(MODELS / "qwen3", self.out).stderr)


if __name__ == "__main__":
    unittest.main()
