"""Counts what the how-tos promise: a model family touches three files, a format of known elements two."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCES = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".cc", ".h")]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in SOURCES}


def naming(pattern, folder="src/"):
    """The files below a folder that name something."""
    return sorted(path for path, text in TEXTS.items() if path.startswith(folder) and re.search(pattern, text))


class HowTo(unittest.TestCase):
    def test_a_model_family_touches_three_files(self):
        readers = re.findall(r"Result<DecoderSpec> read_(\w+)\(", TEXTS["src/models/families.h"])
        self.assertGreaterEqual(len(readers), 5)
        for family in readers:
            files = naming(rf"\bread_{family}\b")
            self.assertEqual(len(files), 3, f"{family}: {files}")
            self.assertTrue({"src/models/families.h", "src/models/registry.cc"} < set(files), f"{family}: {files}")

    # MODELS-1
    def test_no_decoder_asks_for_a_name(self):
        for path in ("src/models/decoder.cc", "src/models/decoder.h"):
            self.assertNotRegex(TEXTS[path].lower(), r"gemma|qwen|mistral")

    def test_a_format_of_known_elements_touches_two_files(self):
        for codec in ("kMxfp8", "kE5M2Channel"):
            # Casts between two formats, and searches for one's best scales, are no part of adding one.
            files = set(naming(rf"\b{codec}\b", "src/tensor/")) - {"src/tensor/casts.cc", "src/tensor/quantise.cc"}
            self.assertEqual(files, {"src/tensor/codec.cc", "src/tensor/codec.h"}, codec)

    def test_a_gguf_block_format_touches_four_and_its_type_number(self):
        for codec in ("kQ5_1", "kQ2_K", "kQ6_K"):
            expected = {f"src/tensor/{name}" for name in ("codec.cc", "codec.h", "gguf_decode.cc", "gguf_encode.cc")}
            self.assertLessEqual(set(naming(rf"\b{codec}\b", "src/tensor/")), expected, codec)
            # Other dialects' integers are kept in some of these blocks, and weights are quantised into some, which is no
            # part of adding one.
            others = {"src/checkpoint/integer_matrix.cc", "src/checkpoint/weight_quantiser.cc"}
            files = set(naming(rf"\b{codec}\b", "src/checkpoint/")) - others
            self.assertLessEqual(len(files), 1, codec)

    def test_the_files_that_a_how_to_names_exist(self):
        for page in sorted((ROOT / "docs/how-to").glob("*.md")):
            named = re.findall(r"`((?:src|tools|test|tests|app|docs|cmake)/[\w./-]+)`", page.read_text())
            self.assertGreaterEqual(len(named), 1, page.name)
            for path in named:
                self.assertTrue((ROOT / path).exists(), f"{page.name} names {path}")


if __name__ == "__main__":
    unittest.main()
