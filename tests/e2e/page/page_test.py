#!/usr/bin/env python3
"""The web page in headless Chromium: against a stand-in for the server, and against the program itself.

usage: page_test.py [SCREENSHOTS [VERNIER]]     SCREENSHOTS: a folder that keeps the pictures
Exit code 77: skipped, there is no Chromium.
"""

import contextlib
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from browser import Browser, find_chromium
from stand_in import StandIn

ROOT = pathlib.Path(__file__).resolve().parents[3]
PICTURES = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
PROGRAM = sys.argv[2] if len(sys.argv) > 2 else None
IDLE = "!document.querySelector('.running') && document.getElementById('stop').hidden"
LAST = "document.querySelector('article:last-child')"


def brightness(png):
    """Of a PNG's first pixel, which is the ground of the page's head: 0 black, 255 white."""
    data, at = b"", 8
    while at < len(png):
        size, kind = struct.unpack("!I4s", png[at:at + 8])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += size + 12
    return sum(zlib.decompress(data)[1:4]) / 3  # the first pixel is stored as it is, whatever the row's filter


class InBrowser(unittest.TestCase):
    """What a person does with the page."""

    def open(self, server, **view):
        self.browser.set_view(**({"width": 1280, "height": 800} | view))
        self.browser.open("about:blank")
        self.browser.complaints.clear()
        self.browser.requested.clear()
        self.browser.open(server.url)
        self.browser.wait("!!document.getElementById('ask')")
        self.browser.js("localStorage.clear()")
        if not server.key:
            self.browser.wait("document.getElementById('model')?.value")

    def ask(self, text, wait=True):
        turns = self.browser.js("document.querySelectorAll('article').length")
        self.browser.js("document.getElementById('question').focus()")
        self.browser.type(text)
        self.browser.key("Enter")
        self.browser.wait(f"document.querySelectorAll('article').length === {turns + 2}")
        if wait:
            self.browser.wait(IDLE)

    def text(self, selector):
        return self.browser.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def fill_live_view(self):
        """Two minutes of readings at once, two seconds apart by the page's clock."""
        self.browser.js("""import("/page/live.js").then(async ({ makeLive }) => {
          let now = performance.now();
          performance.now = () => now;
          document.getElementById("live").replaceChildren();
          const read = makeLive(document.getElementById("live"));
          for (let i = 0; i < 61; ++i, now += 2000) await read();
        })""")

    def picture(self, name):
        if PICTURES is None:
            return self.browser.screenshot("/dev/null")
        PICTURES.mkdir(parents=True, exist_ok=True)
        return self.browser.screenshot(PICTURES / f"{name}.png")

class Page(InBrowser):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(find_chromium())
        cls.stand_in = StandIn(ROOT)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.stand_in.stop()

    def setUp(self):
        self.open(self.stand_in)

    def test_an_answer_streams_in_with_its_facts(self):
        self.ask("Hello")
        self.assertEqual(self.text("article.user .text"), "Hello")
        self.assertRegex(self.text("article.assistant > .text"), r"^Answer \d+\.$")
        facts = self.text("article.assistant .facts")
        for said in ("128 tokens", "42.1 a second", "first after 85 ms", "prompt 34 (20 from cache)"):
            self.assertIn(said, facts)
        self.assertEqual(self.browser.js("document.activeElement.id"), "question")
        self.ask("And [long]")
        self.assertIn("cut at the token limit", self.browser.js(f"{LAST}.innerText"))
        roles = [message["role"] for message in self.stand_in.bodies[-1]["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user"])

    def test_nothing_comes_from_elsewhere_and_nothing_is_refused(self):
        self.ask("[markdown] [think]")
        self.browser.wait("!!document.querySelector('.line')")
        outside = [url for url in self.browser.requested if not url.startswith((self.stand_in.url, "about:"))]
        self.assertEqual(outside, [])
        self.assertIn(self.stand_in.url + "page/style.css", self.browser.requested)
        self.assertEqual(self.browser.complaints, [])

    # SERVER-15
    def test_no_answer_becomes_markup(self):
        self.ask("[hostile]")
        self.assertIn('<img src=x onerror="window.broken=1"> <script>', self.text("article.assistant > .text"))
        self.assertEqual(self.text("article.assistant strong"), "<b>bold</b>")
        self.assertEqual(self.text("article.assistant p code"), "<i>code</i>")
        self.assertEqual(self.browser.js("document.querySelectorAll('article :is(img, script, a, b, i)').length"), 0)
        self.assertIsNone(self.browser.js("window.broken ?? null"))
        self.ask("<img src=x onerror='window.broken=1'>")
        self.assertIsNone(self.browser.js("window.broken ?? null"))
        self.assertEqual(self.browser.complaints, [])

    def test_markdown(self):
        self.ask("[markdown]")
        shown = f"{LAST}.querySelector(':scope > .text')"
        self.assertEqual(self.browser.js(f"[...{shown}.children].map((e) => e.tagName).join(' ')"),
                         "H4 P FIGURE OL BLOCKQUOTE")
        self.assertEqual(self.browser.js(f"{shown}.querySelectorAll(':scope > ol > li').length"), 3)
        self.assertEqual(self.browser.js(f"{shown}.querySelectorAll('ol > li > ul > li').length"), 2)
        self.assertTrue(self.text("figure pre").startswith("def find(items, wanted):\n    low, high"))
        self.assertEqual([self.text(f"article.assistant p > {tag}") for tag in ("strong", "em", "code")],
                         ["sorted", "halves", "O(log n)"])

    def test_markdown_is_the_same_whole_and_in_pieces(self):
        self.assertTrue(self.browser.js("""import("/page/markdown.js").then(({ update }) => {
          const text = "a\\n\\n* b\\n  * c\\n\\n1) d\\n\\n~~~\\n```\\n~~~\\n***\\n**e** *f `g*\\n# h\\n> > i\\n```\\nopen";
          const whole = document.createElement("div");
          const pieces = document.createElement("div");
          update(whole, text);
          for (let size = 0; size <= text.length; ++size) update(pieces, text.slice(0, size));
          if (whole.innerHTML !== pieces.innerHTML) throw new Error(whole.innerHTML + " / " + pieces.innerHTML);
          return whole.children.length === 8;
        })"""))

    def test_reasoning_is_folded(self):
        self.ask("[think]")
        self.assertFalse(self.browser.js("document.querySelector('.reasoning').open"))
        self.browser.click(".reasoning summary")
        self.assertEqual(self.text(".reasoning .text"), "First the middle, then a half.")
        self.ask("Next")
        self.assertNotIn("First the middle", json.dumps(self.stand_in.bodies[-1]))

    def test_stop_frees_the_server_and_keeps_what_came(self):
        for stop in (lambda: self.browser.click("#stop"), lambda: self.browser.key("Escape")):
            gone = self.stand_in.clients_gone
            self.ask("[slow]", wait=False)
            self.browser.wait(f"{LAST}.innerText.includes('3 ')")
            self.assertTrue(self.browser.js("document.getElementById('send').hidden"))
            stop()
            self.browser.wait(IDLE)
            self.assertIn("0 1 2 3", self.browser.js(f"{LAST}.querySelector(':scope > .text').innerText"))
            self.assertIn("stopped", self.browser.js(f"{LAST}.querySelector('.facts').innerText"))
            for _ in range(100):
                if self.stand_in.clients_gone > gone:
                    break
                self.browser.js("new Promise((done) => setTimeout(done, 50))")
            self.assertGreater(self.stand_in.clients_gone, gone)

    def test_regenerate_replaces_the_last_answer(self):
        self.ask("First")
        self.ask("Second")
        before = self.browser.js(f"{LAST}.querySelector(':scope > .text').innerText")
        sent = len(self.stand_in.bodies)
        self.browser.click("article:last-child .regenerate")
        self.browser.wait(f"{IDLE} && {LAST}.querySelector(':scope > .text').innerText !== {json.dumps(before)}")
        self.assertEqual(self.browser.js("document.querySelectorAll('article').length"), 4)
        self.assertEqual(self.stand_in.bodies[sent]["messages"], self.stand_in.bodies[sent - 1]["messages"])
        self.assertEqual(self.browser.js("getComputedStyle(document.querySelector('.regenerate')).display"), "none")

    def test_failures_are_told(self):
        for question, said in (("[fail]", "an internal error ended the request"), ("[cut]", "ended before the answer did"),
                               ("[refuse]", "the queue is full (429)")):
            self.ask(question)
            self.assertIn(said, self.browser.js(f"{LAST}.querySelector('.problem').innerText"))
        self.assertEqual(self.browser.js("document.querySelectorAll('article.assistant')[0].querySelector(':scope > .text').innerText"),
                         "A beginning")
        # The refused question had no answer: the next one joins it, since templates want roles to alternate.
        self.ask("[refuse] again")
        roles = [message["role"] for message in self.stand_in.bodies[-1]["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user", "assistant", "user"])
        self.assertEqual(self.stand_in.bodies[-1]["messages"][-1]["content"], "[refuse]\n\n[refuse] again")

    def test_settings_go_into_the_request(self):
        self.ask("Plain")
        self.assertEqual(set(self.stand_in.bodies[-1]), {"model", "messages", "stream", "stream_options"})
        self.browser.click("#show-settings")
        self.assertEqual(self.browser.js("document.getElementById('temperature').placeholder"), "0.7")
        for name, value in (("system", "Be brief."), ("temperature", "0.25"), ("max-tokens", "50"), ("seed", "7")):
            self.browser.click(f"#{name}")
            self.browser.type(value)
        self.ask("Set")
        body = self.stand_in.bodies[-1]
        self.assertEqual((body["temperature"], body["max_tokens"], body["seed"]), (0.25, 50, 7))
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Be brief."})
        self.browser.click("#temperature")
        self.browser.type("99")
        sent = len(self.stand_in.bodies)
        self.browser.click("#question")
        self.browser.type("Not sent")
        self.browser.key("Enter")
        self.browser.wait("document.activeElement.id === 'temperature'")
        self.assertEqual(len(self.stand_in.bodies), sent)

    def test_new_chat_forgets(self):
        self.ask("[slow]", wait=False)
        self.browser.wait(f"{LAST}.innerText.includes('1 ')")
        self.browser.click("#new-chat")
        self.assertEqual(self.browser.js("document.querySelectorAll('article').length"), 0)
        self.ask("Fresh")
        self.assertEqual([m["content"] for m in self.stand_in.bodies[-1]["messages"]], ["Fresh"])

    def test_copy(self):
        self.ask("[markdown]")
        self.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.browser.click("figure .copy")
        self.browser.wait("document.querySelector('figure .copy').textContent === 'Copied'")
        self.assertTrue(self.browser.js("navigator.clipboard.readText()").startswith("def find(items, wanted):\n"))
        self.browser.click("article.assistant footer .copy")
        self.browser.wait("document.querySelector('article.assistant footer .copy').textContent === 'Copied'")
        self.assertTrue(self.browser.js("navigator.clipboard.readText()").startswith("## A binary search"))

    def test_keyboard_alone(self):
        self.browser.js("document.activeElement.blur()")
        reached = set()
        for _ in range(12):
            self.browser.key("Tab")
            reached.add(self.browser.js("document.activeElement.id"))
        self.assertLessEqual({"new-chat", "show-settings", "show-live", "theme", "turns", "question", "send"}, reached)
        self.browser.js("document.getElementById('question').focus()")
        self.browser.type("one")
        self.browser.key("Enter", shift=True)
        self.browser.type("two")
        self.browser.key("Enter")
        self.browser.wait(f"!!document.querySelector('article.assistant') && {IDLE}")
        self.assertEqual(self.stand_in.bodies[-1]["messages"][-1]["content"], "one\ntwo")

    def test_everything_has_a_name(self):
        self.browser.click("#show-settings")
        self.ask("[markdown] [think]")
        tree = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        nameless = [node["role"]["value"] for node in tree
                    if not node.get("ignored") and node["role"]["value"] in ("button", "textbox", "spinbutton", "combobox", "image", "img")
                    and not node.get("name", {}).get("value")]
        self.assertEqual(nameless, [])

    def test_live_view(self):
        self.browser.wait("document.querySelectorAll('.line-0').length >= 6", 30)
        live = self.text("#live")
        for said in ("75 %", "p50 7", "held 120, cached 200, free 80 blocks", "window of 1,024 tokens", "whole context",
                     "window above 4096", "17"):
            self.assertIn(said, live)
        counts = dict(zip(live.split("\n"), live.split("\n")[1:]))
        self.assertEqual([counts[name] for name in ("Answers 4xx", "Answers 5xx", "Preemptions")], ["4", "2", "1"])
        out, into = self.browser.js("[...document.querySelectorAll('.value')].map((e) => +e.textContent)")[:2]
        self.assertGreater(out, 5)   # 24 tokens in each reading of about two seconds
        self.assertGreater(into, out)
        self.browser.click("#show-live")
        self.assertTrue(self.browser.js("document.getElementById('live').hidden"))

    def test_percentiles_and_labels(self):
        self.assertEqual(self.browser.js("""import("/page/prometheus.js").then(({ parse, quantiles, total }) => {
          const text = (a, b, c) => `h_bucket{le="1"} ${a}\\nh_bucket{le="2"} ${b}\\nh_bucket{le="+Inf"} ${c}\\n`;
          const none = parse(text(5, 5, 5));
          const now = parse(text(15, 25, 25) + 'x{a="b\\\\"}",c="d\\\\n"} 3 1700000000\\nx 4\\n# x 5\\nbroken{');
          return [quantiles(none, now, "h", [0.25, 0.5, 0.75]), quantiles(none, none, "h", [0.5]),
                  quantiles(none, parse(text(5, 5, 6)), "h", [0.5]), total(now, "x"), total(now, "y"),
                  now.get("x")[0].labels.a, now.get("x")[0].labels.c];
        })"""), [[0.5, 1, 1.5], [None], [2], 7, None, 'b"}', "d\n"])

    def test_a_key_is_asked_for_and_kept_in_the_tab(self):
        with contextlib.ExitStack() as stack:
            locked = StandIn(ROOT, key="sk-page")
            stack.callback(locked.stop)
            self.open(locked)
            self.browser.wait("document.getElementById('key-dialog').open")
            self.picture("key")
            self.browser.type("sk-wrong")
            self.browser.key("Enter")
            self.browser.wait("document.getElementById('key-problem').textContent.includes('not one of')")
            self.browser.type("sk-page")
            self.browser.key("Enter")
            self.browser.wait("document.getElementById('model-name').textContent === 'tiny'")
            self.ask("Hello")
            self.assertIn("Answer", self.text("article.assistant > .text"))
            self.browser.wait("!!document.querySelector('.line')")
            self.assertEqual(self.browser.js("[JSON.stringify(localStorage).includes('sk-'), document.cookie]"), [False, ""])

    def test_colours_follow_the_system_and_the_button(self):
        self.ask("[markdown] [think]")
        self.fill_live_view()
        self.assertGreater(brightness(self.picture("light")), 200)
        self.browser.set_view(1280, 800, dark=True)
        self.assertLess(brightness(self.picture("dark")), 60)
        self.browser.click("#theme")  # light, whatever the system says
        self.assertGreater(brightness(self.picture("light-by-choice")), 200)
        self.browser.set_view(1280, 800)
        self.browser.click("#theme")  # dark
        self.assertLess(brightness(self.picture("dark-by-choice")), 60)

    def test_a_narrow_screen(self):
        self.open(self.stand_in, width=390, height=844, mobile=True)
        self.ask("[markdown]")
        self.picture("mobile")
        wide = "document.documentElement.scrollWidth > innerWidth"
        self.assertFalse(self.browser.js(wide))
        self.assertTrue(self.browser.js("document.getElementById('live').hidden"))
        self.browser.click("#show-settings")
        self.picture("mobile-settings")
        self.assertFalse(self.browser.js(wide))
        self.browser.click("#show-live")
        self.fill_live_view()
        self.picture("mobile-live")
        self.assertFalse(self.browser.js(wide))


class Program:
    """`vernier serve` with a scripted model."""

    def __init__(self, folder):
        self.key = ""
        shutil.copytree(ROOT / "tests/data/models/llama", folder / "model")
        shutil.copy(ROOT / "tests/data/tokenizers/mini-merges.json", folder / "model/tokenizer.json")
        (folder / "model/chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
        replies = [{"match": "[slow]", "delay_ms": 50, "pieces": [f" {n}" for n in range(400)]},
                   {"match": "", "pieces": ["**bold**", " and", " plain"]}]
        script = folder / "tiny.json"
        script.write_text(json.dumps({"tokenizer": str(folder / "model"), "format": "plain", "replies": replies}))
        self.process = subprocess.Popen([PROGRAM, "serve", f"script:{script}", "--port", "0"], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.url = f"http://{line.split('http://')[1].split(',')[0]}/"

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()


@unittest.skipIf(PROGRAM is None, "no program was given")
class PageOfTheProgram(InBrowser):
    """The page as the program serves it, with the routes that it has."""

    def test_chat_stop_and_live_view(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            program = Program(pathlib.Path(folder))
            stack.callback(program.stop)
            self.browser = Browser(find_chromium())
            stack.callback(self.browser.close)
            self.open(program)
            self.ask("Hello")
            self.assertEqual(self.text("article.assistant > .text"), "bold and plain")
            self.assertRegex(self.text("article.assistant .facts"), r"^4 tokens · .*first after .* · prompt \d+")
            self.ask("[slow]", wait=False)
            self.browser.wait(f"{LAST}.innerText.includes(' 3')")
            self.browser.wait("document.querySelectorAll('.value')[8].innerText === '1'")  # choices that run
            self.browser.click("#stop")
            self.browser.wait("document.querySelectorAll('.value')[8].innerText === '0'")
            self.picture("program")
            self.assertEqual(self.browser.complaints, [])
            self.browser.open(program.url + "?again")
            self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    if find_chromium() is None:
        print("SKIPPED e2e_page: the web page was not tested, there is no Chromium here; install the package 'chromium'")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
