#!/usr/bin/env python3
"""The real `vernier serve` over real sockets, of a script and of a small encoder, with the standard library alone.

usage: serve_test.py VERNIER TEST_DATA
"""

import base64
import fcntl
import http.client
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SCRIPT = {
    "format": "plain",
    "replies": [
        {"match": "[three]", "pieces": ["one", " two", " three"]},
        {"match": "[fail]", "pieces": ["one", {"fail": "injected"}]},
        {"match": "[slow]", "delay_ms": 50, "pieces": [f" {n}" for n in range(40)]},
        {"match": "", "pieces": ["ok"]},
    ],
}
CHAT = "/v1/chat/completions"


class Served:
    """A server process that was told to print its address, and what tests ask of it."""

    def __init__(self, *arguments):
        command = [PROGRAM, "serve", *arguments, "--port", "0", "--log-level", "info"]
        self.log = tempfile.TemporaryFile("w+")
        # The server writes to this open file: wherever a reader has gone to, it writes at the end.
        fcntl.fcntl(self.log, fcntl.F_SETFL, fcntl.fcntl(self.log, fcntl.F_GETFL) | os.O_APPEND)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        assert "http://" in line, f"{command} said {line!r}"
        self.port = int(line.split("http://127.0.0.1:")[1].split(",")[0])

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = json.dumps(body) if body is not None else None
        connection.request(method, path, data, {"Content-Type": "application/json"} | headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, response.headers, content

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2].decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + "{"))

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def log_lines(self):
        """What the log says of each request."""
        self.log.seek(0)
        lines = []
        while True:
            at = self.log.tell()
            line = self.log.readline()
            if not line.endswith("\n"):  # the rest is still being written
                self.log.seek(at)
                return lines
            if '"request_id"' in line:
                lines.append(json.loads(line[line.index("{"):]))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.process.stdout.close()
        self.log.close()
        return code


def tiny_model(folder):
    """A checkpoint whose head is wider than its tokenizer."""
    model = folder / "model"
    if not model.exists():
        shutil.copytree(DATA / "models" / "llama", model)
        shutil.copy(DATA / "tokenizers" / "mini-merges.json", model / "tokenizer.json")
        (model / "chat_template.jinja").write_text(TEMPLATE)
    return model


class Server(Served):
    def __init__(self, folder, *flags):
        model = tiny_model(folder)
        script = folder / "tiny.json"
        script.write_text(json.dumps({"tokenizer": str(model)} | SCRIPT))
        super().__init__(f"script:{script}", *flags)

    def chat(self, text, **more):
        body = {"model": "tiny", "messages": [{"role": "user", "content": text}]} | more
        status, headers, content = self.ask("POST", CHAT, body)
        return status, headers, content


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(pathlib.Path(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, f"SIGTERM ended the server with {code}"

    def test_R01_whole_answer(self):
        status, headers, content = self.server.chat("[three]")
        answer = json.loads(content)
        self.assertEqual((status, answer["choices"][0]["message"]["content"]), (200, "one two three"))
        self.assertEqual(answer["usage"]["completion_tokens"], 4)
        self.assertTrue(headers["x-request-id"])

    def test_S01_stream(self):
        status, headers, content = self.server.chat("[three]", stream=True)
        self.assertEqual((status, headers["content-type"]), (200, "text/event-stream; charset=utf-8"))
        events = content.decode().removesuffix("\n\n").split("\n\n")
        self.assertEqual(events[-1], "data: [DONE]")
        chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
        self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for c in chunks), "one two three")

    def test_T18_and_T19_failures(self):
        self.assertEqual(self.server.chat("[fail]")[0], 500)
        status, _, content = self.server.chat("[fail]", stream=True)
        self.assertEqual(status, 200)
        self.assertIn(b'data: {"error":', content)
        self.assertTrue(content.endswith(b"data: [DONE]\n\n"))

    def test_T20_client_that_leaves_frees_its_choices(self):
        body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "[slow]"}], "n": 3, "stream": True})
        with socket.create_connection(("127.0.0.1", self.server.port)) as wire:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            wire.sendall((head + body).encode())
            wire.recv(1024)
        deadline = time.monotonic() + 5
        while self.server.metric("vernier_requests_running") and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.server.metric("vernier_requests_running"), 0)
        self.assertLess(time.monotonic(), deadline)

    def test_T20_client_that_closes_one_side_is_served(self):
        for stream in (False, True):
            body = json.dumps({"model": "tiny", "prompt": "[slow]", "max_tokens": 30, "stream": stream})
            with socket.create_connection(("127.0.0.1", self.server.port)) as wire:
                head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                wire.sendall((head + body).encode())
                wire.shutdown(socket.SHUT_WR)
                answer = wire.makefile("rb").read().decode()
            self.assertNotIn("500", answer.split("\r\n")[0])
            self.assertEqual(answer.count("HTTP/1.1 200 OK"), 1, answer)
            self.assertIn(" 29", answer)

    def test_M01_and_F122_facts(self):
        self.assertEqual(json.loads(self.server.ask("GET", "/v1/models")[2])["data"][0]["id"], "tiny")
        for path in ("/health", "/live", "/health/live", "/health/generate", "/version", "/props"):
            self.assertEqual(self.server.ask("GET", path)[0], 200, path)

    def test_P05_responses(self):
        status, _, content = self.server.ask("POST", "/v1/responses", {"model": "tiny", "input": "[three]", "stream": True})
        self.assertEqual(status, 200)
        self.assertIn(b"event: response.completed\n", content)

    def test_F136_the_log_has_a_ledger_that_sums_to_the_wall_time(self):
        self.server.ask("POST", CHAT, {"model": "tiny", "messages": [{"role": "user", "content": "[slow]"}], "max_tokens": 4},
                        **{"x-request-id": "ledger-1"})
        deadline = time.monotonic() + 5
        while not (lines := [l for l in self.server.log_lines() if l["request_id"] == "ledger-1"]) and time.monotonic() < deadline:
            time.sleep(0.02)
        ledger = lines[0]["ledger"]
        self.assertAlmostEqual(sum(ledger.values()), lines[0]["ms"], delta=0.01)
        self.assertGreater(ledger["decode_ms"], 140)
        self.assertEqual(set(ledger), {f"{part}_ms" for part in ("queue", "prefill", "waiting", "decode", "padding",
                                                                 "preemption", "client")})

    def test_the_ledger_of_a_client_that_left_is_in_the_log(self):
        for stream in (False, True):
            name = f"left-{stream}"
            body = json.dumps({"model": "tiny", "prompt": "[slow]", "max_tokens": 30, "stream": stream})
            with socket.create_connection(("127.0.0.1", self.server.port)) as wire:
                head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {name}\r\nContent-Length: {len(body)}\r\n\r\n"
                wire.sendall((head + body).encode())
                time.sleep(0.4)
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            deadline = time.monotonic() + 5
            while not (lines := [l for l in self.server.log_lines() if l["request_id"] == name]) and time.monotonic() < deadline:
                time.sleep(0.02)
            ledger = lines[0]["ledger"]
            self.assertAlmostEqual(sum(ledger.values()), lines[0]["ms"], delta=0.01)
            self.assertGreater(ledger["decode_ms"], 100)
            self.assertLess(lines[0]["ms"], 1400)

    def run_client(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments, "--url", f"http://127.0.0.1:{self.server.port}"], capture_output=True,
                              text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def test_bench_serve_measures_a_server(self):
        plot = pathlib.Path(self.folder.name) / "sweep.svg"
        code, output, errors = self.run_client("--json", "bench", "serve", "--concurrency", "1,2", "--requests", "4", "--api",
                                               "chat", "--prompt-tokens", "4", "--output-tokens", "4", "--plot", str(plot))
        self.assertEqual(code, 0, errors)
        report = json.loads(output)
        self.assertEqual([level["concurrency"] for level in report["levels"]], [1, 2])
        self.assertIn("<svg", plot.read_text()[:200])
        self.assertEqual(self.run_client("bench", "serve", "--concurrency", "0")[0], 2)

    def test_selftest_scores_a_server(self):
        code, output, errors = self.run_client("selftest", "--only", "T03,T08,T14,M,S05,S10")
        self.assertEqual(code, 0, output + errors)
        self.assertRegex(output, r"M models +3 +0 +0")
        self.assertEqual(self.run_client("selftest", "--only", "nothing")[0], 2)

    def test_many_at_once(self):
        answers = [None] * 50
        def ask(i):
            answers[i] = json.loads(self.server.chat("[three]", stream=False)[2])
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({a["choices"][0]["message"]["content"] for a in answers}, {"one two three"})
        self.assertEqual(len({a["id"] for a in answers}), len(answers))


class WideHead(unittest.TestCase):
    def test_G17_draws_no_token_that_the_tokenizer_does_not_know(self):
        with tempfile.TemporaryDirectory() as folder:
            model = tiny_model(pathlib.Path(folder))
            server = Served(str(model))
            while server.ask("GET", "/health")[0] == 503:
                time.sleep(0.05)
            params = {"temperature": 1.7, "max_new_tokens": 100, "ignore_eos": True, "sampling_seed": 3}
            status, _, content = server.ask("POST", "/generate", {"input_ids": [5, 17, 200, 31], "sampling_params": params})
            self.assertEqual(status, 200, content)
            tokens = json.loads(content)["output_ids"]
            self.assertEqual(server.stop(), 0)
            tokenizer = json.loads((model / "tokenizer.json").read_text())
            known = {*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])}
            self.assertEqual(len(tokens), 100)
            self.assertEqual([token for token in tokens if token > max(known)], [])
            self.assertLess(max(known) + 1, json.loads((model / "config.json").read_text())["vocab_size"])


class Deadline(unittest.TestCase):
    """F131: --request-timeout."""

    def test_a_late_request_is_504_or_an_error_event(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server(pathlib.Path(folder), "--request-timeout", "0.3")
            status, _, content = server.chat("[slow]")
            self.assertEqual((status, json.loads(content)["error"]["code"]), (504, "timeout"))
            status, _, content = server.chat("[slow]", stream=True)
            events = content.decode().removesuffix("\n\n").split("\n\n")
            self.assertEqual((status, events[-1]), (200, "data: [DONE]"))
            self.assertEqual(json.loads(events[-2].removeprefix("data: "))["error"]["code"], "timeout")
            self.assertEqual(server.chat("[three]")[0], 200)
            self.assertEqual((server.metric("vernier_requests_running"), server.metric("vernier_requests_failed_total")), (0, 2))
            self.assertEqual(server.stop(), 0)


class Limits(unittest.TestCase):
    """Keys, a short queue, strict fields."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(pathlib.Path(cls.folder.name), "--api-key", "sk-test", "--max-running-requests", "1",
                            "--max-queue", "2", "--strict-api", "--cors-origin", "https://app.example", "--grace", "20")

    @classmethod
    def tearDownClass(cls):
        cls.server.process.kill()
        cls.server.process.wait()
        cls.server.process.stdout.close()
        cls.server.log.close()
        cls.folder.cleanup()

    def ask(self, text, **more):
        body = {"model": "tiny", "messages": [{"role": "user", "content": text}]} | more
        return self.server.ask("POST", CHAT, body, Authorization="Bearer sk-test")

    def test_T11_keys(self):
        self.assertEqual(self.server.ask("GET", "/v1/models")[0], 401)
        self.assertEqual(self.server.ask("GET", "/v1/models", Authorization="bearer sk-test")[0], 200)
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)

    def test_T16_full_queue(self):
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.ask("[slow]"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused = [headers for status, headers, _ in answers if status == 429]
        self.assertTrue(refused and all(int(headers["retry-after"]) >= 0 for headers in refused))
        self.assertGreaterEqual([status for status, _, _ in answers].count(200), 3)

    def test_T22_strict(self):
        status, _, content = self.ask("x", no_such_field=1)
        self.assertEqual((status, json.loads(content)["error"]["param"]), (400, "no_such_field"))

    def test_zz_T21_running_answers_end_after_sigterm(self):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask("[slow]", stream=True)))
        thread.start()
        time.sleep(0.3)
        self.server.process.send_signal(signal.SIGTERM)
        thread.join()
        self.assertEqual(self.server.process.wait(30), 0)
        self.assertIn(b" 39", answers[0][2])
        self.assertTrue(answers[0][2].endswith(b"data: [DONE]\n\n"))


class Signals(unittest.TestCase):
    """What ends a server, and how."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.server = Server(pathlib.Path(self.folder.name))

    def tearDown(self):
        self.server.process.kill()
        self.server.process.wait()
        self.server.process.stdout.close()
        self.server.log.close()
        self.folder.cleanup()

    def begin_slow_stream(self):
        body = json.dumps({"model": "tiny", "prompt": "[slow]", "max_tokens": 64, "stream": True})
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        return connection.getresponse()

    def test_running_answers_end_after_sighup(self):
        answer = self.begin_slow_stream()
        self.server.process.send_signal(signal.SIGHUP)
        self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
        self.assertEqual(self.server.process.wait(30), 0)

    def test_a_second_signal_ends_it_at_once(self):
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGHUP, signal.SIGINT)):
            answer = self.begin_slow_stream()
            self.server.process.send_signal(first)
            time.sleep(0.5)
            self.server.process.send_signal(second)
            self.assertEqual(self.server.process.wait(30), -second)
            rest = answer.read()  # whole: no stream ends without a word
            self.assertIn(b'"code":"shutting_down"', rest)
            self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))
            self.assertIn("some answers were cut off", self.server.log_text())
            if second == signal.SIGTERM:
                self.tearDown()
                self.setUp()

    def test_one_ends_it_while_the_model_is_loaded(self):
        script = pathlib.Path(self.folder.name) / "never.json"
        os.mkfifo(script)
        command = [PROGRAM, "serve", f"script:{script}", "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(script, "w"):  # once it reads, and it never gets a byte
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(30), 128 + signal.SIGTERM)

    def test_a_hangup_that_is_ignored_stays_so(self):
        self.tearDown()
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
        try:
            self.setUp()
        finally:
            signal.signal(signal.SIGHUP, before)
        self.server.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)


class Encoder(unittest.TestCase):
    """A small BERT folder: embeddings as sentence-transformers makes them, and no route that generates."""

    @classmethod
    def setUpClass(cls):
        cls.server = Served(str(DATA / "models" / "bert"), "--numerics", "exact")
        with open(DATA / "models/bert/sentences.jsonl", encoding="utf-8") as lines:
            cls.sentences = [json.loads(line) for line in lines]

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def embed(self, given, server=None, **more):
        status, _, content = (server or self.server).ask("POST", "/v1/embeddings", {"model": "bert", "input": given} | more)
        self.assertEqual(status, 200, content)
        return json.loads(content)

    def close(self, vector, expected):
        self.assertEqual(len(vector), len(expected))
        self.assertLess(max(abs(a - b) for a, b in zip(vector, expected)), 1e-5)

    def test_E01_vectors_are_those_of_the_reference(self):
        answer = self.embed([sentence["ids"] for sentence in self.sentences])
        for item, sentence in zip(answer["data"], self.sentences):
            self.close(item["embedding"], sentence["mean"])
        self.assertEqual(answer["usage"]["prompt_tokens"], sum(len(s["ids"]) for s in self.sentences))

    def test_E02_text_and_base64(self):
        sentence = self.sentences[1]
        answer = self.embed(sentence["text"], encoding_format="base64")
        raw = base64.b64decode(answer["data"][0]["embedding"])
        self.close(struct.unpack(f"<{len(raw) // 4}f", raw), sentence["mean"])

    def test_E03_dimensions_that_the_model_was_not_made_for(self):
        for dimensions, expected in ((24, 200), (8, 400)):
            body = {"model": "bert", "input": "the", "dimensions": dimensions}
            self.assertEqual(self.server.ask("POST", "/v1/embeddings", body)[0], expected)

    def test_E05_many_inputs_in_one_request(self):
        texts = [sentence["text"] for sentence in self.sentences if "[" not in sentence["text"]] * 30
        data = self.embed(texts)["data"]
        self.assertEqual([item["index"] for item in data], list(range(len(texts))))
        alone = [self.embed(text)["data"][0]["embedding"] for text in texts[:5]]
        for item, expected in zip(data, alone * 30):
            self.close(item["embedding"], expected)
            self.assertAlmostEqual(math.hypot(*item["embedding"]), 1, places=5)

    def test_E05_the_most_inputs_of_one_request(self):
        data = self.embed(["the"] * 2048)["data"]
        self.assertEqual([item["index"] for item in data], list(range(2048)))
        body = {"model": "bert", "input": ["the"] * 2049}
        self.assertEqual(self.server.ask("POST", "/v1/embeddings", body)[0], 400)

    def test_E06_ids_that_fill_the_context(self):
        self.assertEqual(len(self.embed([5] * 32)["data"]), 1)
        status, _, content = self.server.ask("POST", "/v1/embeddings", {"model": "bert", "input": [5] * 33})
        error = json.loads(content)["error"]
        self.assertEqual((status, error["param"]), (400, "input"))
        self.assertNotIn("asks for", error["message"])

    def test_E06_a_longer_text_than_the_makers_allow(self):
        self.assertEqual(len(self.embed("the " * 30)["data"]), 1)  # 32 tokens with both ends
        status, _, content = self.server.ask("POST", "/v1/embeddings", {"model": "bert", "input": "the " * 31})
        error = json.loads(content)["error"]
        self.assertEqual((status, error["code"]), (400, "context_length_exceeded"))
        self.assertIn("33", error["message"])
        self.assertIn("32", error["message"])

    def test_E07_routes_that_generate_say_why_not(self):
        for path, body in ((CHAT, {"messages": [{"role": "user", "content": "hi"}]}), ("/v1/completions", {"prompt": "hi"}),
                           ("/v1/responses", {"input": "hi"}), ("/generate", {"text": "hi"})):  # fmt: skip
            status, _, content = self.server.ask("POST", path, {"model": "bert"} | body)
            self.assertEqual(status, 400, path)
            self.assertIn("encoder", json.loads(content)["error"]["message"])

    def test_E08_the_other_routes_answer(self):
        for path in ("/health", "/v1/models", "/props", "/metrics"):
            self.assertEqual(self.server.ask("GET", path)[0], 200, path)
        self.assertEqual(self.server.ask("GET", "/health/generate")[0], 400)
        tokens = json.loads(self.server.ask("POST", "/tokenize", {"model": "bert", "prompt": "the unaffable"})[2])["tokens"]
        self.assertEqual(tokens, [2, 5, 10, 11, 12, 3])

    def test_E09_pooling_is_chosen(self):
        server = Served(str(DATA / "models" / "bert"), "--numerics", "exact", "--pooling", "cls")
        try:
            for sentence in self.sentences:
                self.close(self.embed([sentence["ids"]], server)["data"][0]["embedding"], sentence["cls"])
        finally:
            server.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
