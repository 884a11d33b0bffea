#!/usr/bin/env python3
"""Installs the library, and builds and runs from outside what README.md and examples/ show.

usage: library_test.py SOURCE_FOLDER BUILD_FOLDER CXX
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD, CXX = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
DATA = SOURCE / "tests" / "data"
TEMPLATE = "<s>{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}assistant:"
PROJECT = """cmake_minimum_required(VERSION 3.16)
project(embedding {language})
{lines}
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=500, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


def readme_blocks():
    """The blocks of code of the section that shows how to embed, by language."""
    text = (SOURCE / "README.md").read_text()
    section = re.search(r"^## Embed it in C\+\+ or C$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    return dict(re.findall(r"^```(\w+)\n(.*?)^```$", section, re.M | re.S))


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="vernier-library-"))
        run("cmake", "--build", BUILD, "--target", "vernier_library")
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first", "--component", "library")
        cls.prefix = cls.folder / "moved"  # nothing that was installed may name where it was
        (cls.folder / "first").rename(cls.prefix)
        cls.model = cls.folder / "model"
        shutil.copytree(DATA / "models" / "llama", cls.model)
        shutil.copy(DATA / "tokenizers" / "mini-spm-first.json", cls.model / "tokenizer.json")
        (cls.model / "chat_template.jinja").write_text(TEMPLATE)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def library(self):
        return next(self.prefix.glob("lib*/**/libvernier.so"))

    def build(self, source, name):
        """Another project's way: nothing is known but the prefix."""
        build = self.folder / name
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={CXX}",
            "-DCMAKE_C_FLAGS=-Wall -Wextra -pedantic -Werror", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -pedantic -Werror",
            "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build)
        return build

    def project(self, name, language, lines, files):
        source = self.folder / f"{name}-source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT.format(language=language, lines=lines))
        for file, text in files.items():
            (source / file).write_text(text)
        return self.build(source, name)

    def test_the_c_header_is_c99(self):
        run("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c",
            self.prefix / "include" / "vernier" / "vernier.h")

    def test_headers_include_nothing_of_the_rooms(self):
        for header in (self.prefix / "include").rglob("*.h"):
            for include in re.findall(r'#include "([^"]+)"', header.read_text()):
                self.assertTrue((self.prefix / "include" / include).exists(), f"{header} includes {include}")

    def test_api_9_only_the_api_is_exported(self):
        # API-9
        lines = run("nm", "-D", "--defined-only", self.library()).stdout.splitlines()
        names = {line.split()[-1] for line in lines}
        strangers = sorted(name for name in names if not name.startswith("vernier_"))
        self.assertEqual(strangers, [])
        declared = set(re.findall(r"\b(vernier_\w+)\(", (SOURCE / "include/vernier/vernier.h").read_text()))
        self.assertEqual(names, declared)

    def test_installed_files_name_no_folder_of_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.is_file():
                for folder in (SOURCE, BUILD, self.folder / "first"):
                    data, name = self.without_places(path.read_bytes()), f"{folder}/".encode()
                    at = data.find(name)
                    self.assertEqual(at, -1, f"{path} names {data[max(0, at):max(0, at) + 120]}")

    @staticmethod
    def without_places(data):
        """Without the file names that CHECK reports."""
        return re.sub(rb"/[\w/.+-]+\.(?:cc|h|hpp)\b", b"", data)


    def test_the_examples_answer_alike(self):
        answers = {}
        for language in ("cpp", "c"):
            build = self.build(SOURCE / "examples" / language, f"example-{language}")
            done = run(build / "stream_chat", self.model, "hello", 8)
            self.assertRegex(done.stderr, r"^\d+ tokens in, [1-8] out, the first after [\d.]+ ms\n$")
            answers[language] = done.stdout
            failed = subprocess.run([build / "stream_chat", "/nowhere.gguf", "hello"], capture_output=True, text=True)
            self.assertEqual(failed.returncode, 1)
            self.assertIn("/nowhere.gguf", failed.stderr)
        self.assertTrue(all(answers.values()))

    def test_pkg_config_finds_it(self):
        pkg = self.library().parent / "pkgconfig"
        environment = os.environ | {"PKG_CONFIG_PATH": str(pkg)}
        self.assertEqual(run("pkg-config", "--modversion", "vernier", env=environment).stdout.strip(), "0.1.0")
        flags = run("pkg-config", "--cflags", "--libs", "vernier", env=environment).stdout.split()
        program = self.folder / "by-pkg-config"
        run("cc", SOURCE / "examples" / "c" / "stream_chat.c", "-o", program, *flags,
            f"-Wl,-rpath,{self.library().parent}")
        run(program, self.model, "hello", 3)

    def test_what_the_readme_shows_builds_and_runs(self):
        blocks = readme_blocks()
        for language, file in (("cpp", "main.cc"), ("c", "main.c")):
            lines = blocks["cmake"].replace("main.cc", file)
            build = self.project(f"readme-{language}", "C CXX", lines, {file: blocks[language]})
            done = run(build / "embedding", self.model)
            self.assertTrue(done.stdout.strip(), f"the {language} program of README.md says nothing")

    def test_another_version_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "0.1.0"):
            self.project("future", "CXX", "find_package(vernier 7.0 REQUIRED)", {})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
