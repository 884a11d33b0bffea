"""A server with the page's files and scripted answers in the shapes of Vernier's routes, so that each thing that can
happen to an answer happens on demand. What it is asked is kept in `bodies`."""

import http.server
import json
import pathlib
import re
import threading
import time

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

MARKDOWN = """## A binary search

The list must be **sorted**; each step *halves* what is left, so it takes `O(log n)` steps:

```python
def find(items, wanted):
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
```

1. Look at the middle.
2. Keep one half:
   - the left one, if the middle is not too small
   - else the right one
3. Stop when nothing is left.

> An empty list has no middle, and needs none.
"""
HOSTILE = ('<img src=x onerror="window.broken=1"> <script>window.broken=1</script> **<b>bold</b>** '
           '`<i>code</i>`\n\n```html\n<script>window.broken=1</script>\n```\n\n[link](javascript:window.broken=1)\n')


def page_policy(root):
    """The policy that the program sends, so that what it forbids is forbidden here too."""
    text = (root / "src/server/page_route.cc").read_text()
    return re.search(r'kPolicy\s*=\s*((?:"[^"]*"\s*)+);', text).group(1).strip().strip('"')


class Metrics:
    """Counters that move at each reading as those of a busy server do, faster and slower in turns."""

    def __init__(self):
        self.readings, self.work = 0, 0

    def histogram(self, name, centre):
        counts = [self.work * (bound >= centre) + self.readings * (bound >= 2 * centre) for bound in BOUNDS]
        all_of_them = self.work + self.readings
        lines = [f'{name}_bucket{{model_name="tiny",le="{bound}"}} {n}' for bound, n in zip(BOUNDS, counts)]
        lines.append(f'{name}_bucket{{model_name="tiny",le="+Inf"}} {all_of_them}')
        lines.append(f'{name}_sum{{model_name="tiny"}} {all_of_them * centre}')
        lines.append(f'{name}_count{{model_name="tiny"}} {all_of_them}')
        return [f"# HELP {name} Seconds.", f"# TYPE {name} histogram", *lines]

    def text(self):
        self.readings += 1
        self.work += 15 + self.readings % 7 + self.readings // 5 % 5
        n = self.readings
        one = '{model_name="tiny"}'
        lines = [f"vernier_requests_running{one} {3 + n % 4}", f"vernier_requests_waiting{one} {n % 3}",
                 f"vernier_prefix_hit_tokens_total{one} {n * 300 + self.work * 9}", f"vernier_prefix_query_tokens_total{one} {n * 400 + self.work * 12}",
                 f"vernier_steps_total{one} {n * 20}", f"vernier_steps_failed_total{one} 0",
                 f"vernier_requests_failed_total{one} 2", f"vernier_requests_refused_total{one} 0",
                 f"vernier_requests_aborted_total{one} 5", f"vernier_preemptions_total{one} 1",
                 f"vernier_cache_usage_ratio{one} 0.5", "vernier_http_clients_lagged_total 0",
                 'vernier_http_requests_total{route="/v1/chat/completions",status="200"} 90',
                 'vernier_http_requests_total{route="/v1/chat/completions",status="429"} 4',
                 'vernier_http_requests_total{route="/a \\"quoted\\" }",status="500"} 2',
                 'vernier_fallbacks_total{model_name="tiny",op="attend",reason="window above 4096"} 17']
        for window, held, cached, free in (("none", 120, 200, 80), ("1024", 30, 10, 60)):
            for state, blocks in (("held", held), ("cached", cached), ("free", free)):
                lines.append(f'vernier_cache_blocks{{model_name="tiny",window="{window}",state="{state}"}} {blocks}')
        lines += self.histogram("vernier_time_to_first_token_seconds", 0.1)
        lines += self.histogram("vernier_inter_token_latency_seconds", 0.025)
        return "\n".join(lines) + "\n"


class StandIn:
    def __init__(self, root, key=""):
        self.page, self.policy, self.key = root / "src/server/page", page_policy(root), key
        self.bodies, self.clients_gone, self.metrics = [], 0, Metrics()
        owner = self

        class Route(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                owner.get(self)

            def do_POST(self):
                owner.post(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Route)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @staticmethod
    def answer(route, status, kind, data, **headers):
        data = data.encode() if isinstance(data, str) else data
        route.send_response(status)
        for name, value in ({"Content-Type": kind, "Content-Length": str(len(data))} | headers).items():
            route.send_header(name, value)
        route.end_headers()
        route.wfile.write(data)

    def error(self, route, status, message):
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
        self.answer(route, status, "application/json", json.dumps(body))

    def refused(self, route):
        if not self.key or route.headers.get("Authorization") == f"Bearer {self.key}":
            return False
        self.error(route, 401, "the API key is not one of this server's")
        return True

    def get(self, route):
        path = route.path
        if path == "/" or path.startswith("/page/"):
            file = self.page / (path.removeprefix("/page/") if path != "/" else "index.html")
            if not file.is_file():
                return self.error(route, 404, "this server has no such path")
            headers = {"Content-Security-Policy": self.policy, "X-Content-Type-Options": "nosniff"}
            return self.answer(route, 200, TYPES[file.suffix], file.read_bytes(), **headers)
        if path == "/health":
            return self.answer(route, 200, "application/json", '{"status":"ok"}')
        if self.refused(route):
            return None
        if path == "/metrics":
            return self.answer(route, 200, "text/plain; version=0.0.4; charset=utf-8", self.metrics.text())
        if path == "/props":
            props = {"model": "tiny", "max_model_len": 4096, "default_generation_settings": {"temperature": 0.7}}
            return self.answer(route, 200, "application/json", json.dumps(props))
        if path == "/v1/models":
            return self.answer(route, 200, "application/json", json.dumps({"object": "list", "data": [{"id": "tiny"}]}))
        return self.error(route, 404, "this server has no such path")

    def post(self, route):
        body = json.loads(route.rfile.read(int(route.headers["Content-Length"])))
        if self.refused(route):
            return
        self.bodies.append(body)
        question = body["messages"][-1]["content"]
        if "[refuse]" in question:
            return self.error(route, 429, "the queue is full")
        route.send_response(200)
        route.send_header("Content-Type", "text/event-stream; charset=utf-8")
        route.send_header("Connection", "close")
        route.end_headers()
        route.close_connection = True
        try:
            self.stream(question, lambda text: (route.wfile.write(text.encode()), route.wfile.flush()))
        except OSError:
            self.clients_gone += 1

    def stream(self, question, write):
        def event(data):
            write(f"data: {json.dumps(data, ensure_ascii=False)}\n\n")

        def delta(**fields):
            event({"object": "chat.completion.chunk", "usage": None,
                   "choices": [{"index": 0, "delta": fields, "logprobs": None, "finish_reason": None}]})

        delta(role="assistant", content="")
        if "[slow]" in question:
            for n in range(400):
                delta(content=f"{n} ")
                time.sleep(0.05)
        elif "[think]" in question:
            delta(reasoning_content="First the middle, ", reasoning="First the middle, ")
            delta(reasoning_content="then a half.", reasoning="then a half.")
        if "[fail]" in question or "[cut]" in question:
            delta(content="A beginning")
            if "[fail]" in question:
                event({"error": {"message": "an internal error ended the request", "type": "server_error"}})
                write("data: [DONE]\n\n")
            return
        text = HOSTILE if "[hostile]" in question else MARKDOWN if "[markdown]" in question else f"Answer {len(self.bodies)}."
        write(": keep-alive\n\n")
        for at in range(0, len(text), 7):
            delta(content=text[at:at + 7])
        event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length" if "[long]" in question else "stop"}],
               "usage": None, "timings": {"first_token_ms": 85.2, "predicted_n": 128, "predicted_per_second": 42.12}})
        event({"choices": [], "usage": {"prompt_tokens": 34, "completion_tokens": 128, "total_tokens": 162,
                                        "prompt_tokens_details": {"cached_tokens": 20}}})
        write("data: [DONE]\n\n")
