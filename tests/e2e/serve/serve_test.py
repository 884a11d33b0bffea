#!/usr/bin/env python3
"""The real `vernier serve script:FILE` over real sockets, with the standard library alone.

usage: serve_test.py VERNIER TEST_DATA
"""

import http.client
import json
import pathlib
import shutil
import signal
import socket
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


class Server:
    def __init__(self, folder, *flags):
        model = folder / "model"
        if not model.exists():
            shutil.copytree(DATA / "models" / "llama", model)
            shutil.copy(DATA / "tokenizers" / "mini-merges.json", model / "tokenizer.json")
            (model / "chat_template.jinja").write_text(TEMPLATE)
        script = folder / "tiny.json"
        script.write_text(json.dumps({"tokenizer": str(model)} | SCRIPT))
        command = [PROGRAM, "serve", f"script:{script}", "--port", "0", "--log-level", "info", *flags]
        self.log = tempfile.TemporaryFile("w+")
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

    def chat(self, text, **more):
        body = {"model": "tiny", "messages": [{"role": "user", "content": text}]} | more
        status, headers, content = self.ask("POST", CHAT, body)
        return status, headers, content

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2].decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + "{"))

    def log_lines(self):
        """What the log says of each request."""
        self.log.seek(0)
        return [json.loads(line[line.index("{"):]) for line in self.log if '"request_id"' in line]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.process.stdout.close()
        self.log.close()
        return code


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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
