// The page: a conversation with the served model, its settings, and a live view of the server.

import { events, request } from "./api.js";
import { duration, makeLive } from "./live.js";
import { update } from "./markdown.js";

const POLL_MS = 2000;
const byId = (id) => document.getElementById(id);

let turns = [];         // {role, content, reasoning, article, ...}
let controller = null;  // of the answer under way

// ---- Turns

function button(text, label, run) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  if (run) made.addEventListener("click", run);
  return made;
}

function part(tag, className, parent) {
  const made = document.createElement(tag);
  made.className = className;
  parent.append(made);
  return made;
}

function addTurn(role, content) {
  byId("empty").hidden = true;
  const article = part("article", role, byId("turns"));
  article.setAttribute("aria-label", role === "user" ? "You" : "Answer");
  const turn = { role, content, reasoning: "", article };
  if (role === "assistant") {
    turn.thoughts = part("details", "reasoning", article);
    turn.thoughts.hidden = true;
    part("summary", "", turn.thoughts).textContent = "Reasoning";
    turn.thoughtText = part("div", "text", turn.thoughts);
  }
  turn.text = part("div", "text", article);
  turn.problem = part("p", "problem", article);
  turn.problem.setAttribute("role", "alert");
  const foot = part("footer", "", article);
  const copy = button("Copy", role === "user" ? "Copy message" : "Copy answer");
  copy.classList.add("copy");
  copy.addEventListener("click", () => { copy.dataset.copy = turn.content; });
  foot.append(copy);
  if (role === "assistant") {
    foot.append(button("Regenerate", "Regenerate answer", () => regenerate(turn)));
    foot.lastElementChild.classList.add("regenerate");
    turn.facts = part("span", "facts", foot);
  }
  turns.push(turn);
  if (role === "user") turn.text.textContent = content;
  scrollDown();
  return turn;
}

function removeTurn(turn) {
  turn.article.remove();
  turns = turns.filter((other) => other !== turn);
}

function scrollDown() {
  byId("turns").scrollTop = byId("turns").scrollHeight;
}

/** Keeps the end in sight while the user has not scrolled away from it. */
function followed(change) {
  const log = byId("turns");
  const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (follows) scrollDown();
}

function show(turn) {
  followed(() => {
    turn.thoughts.hidden = !turn.reasoning;
    update(turn.thoughtText, turn.reasoning);
    update(turn.text, turn.content);
  });
}

function showEnd(turn, problem) {
  show(turn);
  followed(() => {
    turn.problem.textContent = problem;
    turn.facts.textContent = facts(turn);
    turn.article.removeAttribute("aria-busy");
    turn.article.classList.remove("running");
  });
}

/** What an answer took: "128 tokens, 42 a second, first after 85 ms, prompt 34 (20 from cache)". */
function facts({ usage, timings, end, startedAt }) {
  const said = [];
  if (usage) said.push(`${usage.completion_tokens} tokens`);
  if (timings?.predicted_per_second > 0) said.push(`${timings.predicted_per_second.toFixed(1)} a second`);
  if (timings) said.push(`first after ${duration(timings.first_token_ms / 1000)}`);
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    said.push(`prompt ${usage.prompt_tokens}${cached ? ` (${cached} from cache)` : ""}`);
  }
  said.push(duration((performance.now() - startedAt) / 1000));
  if (end === "length") said.push("cut at the token limit");
  if (end === "stopped") said.unshift("stopped");
  return said.join(" · ");
}

// ---- Asking

/** The conversation as the API takes it. An answer that never came leaves two questions; templates want them as one. */
function messages() {
  const system = byId("system").value.trim();
  const made = system ? [{ role: "system", content: system }] : [];
  for (const { role, content } of turns) {
    if (!content) continue;
    if (made.at(-1)?.role === role) made.at(-1).content += `\n\n${content}`;
    else made.push({ role, content });
  }
  return made;
}

function requestBody() {
  const body = { model: byId("model").value, messages: messages(), stream: true, stream_options: { include_usage: true } };
  for (const [id, name] of [["temperature", "temperature"], ["max-tokens", "max_tokens"], ["seed", "seed"]]) {
    if (byId(id).value !== "") body[name] = Number(byId(id).value);
  }
  if (!body.model) delete body.model;
  return body;
}

function take(turn, event) {
  if (event.error) throw new Error(event.error.message);
  const choice = event.choices?.[0];
  turn.content += choice?.delta?.content ?? "";
  turn.reasoning += choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "";
  turn.end = choice?.finish_reason ?? turn.end;
  turn.timings = event.timings ?? turn.timings;
  turn.usage = event.usage ?? turn.usage;
}

function setBusy(busy) {
  byId("send").hidden = busy;
  byId("stop").hidden = !busy;
  byId("chat").classList.toggle("busy", busy);
}

async function answer() {
  const body = JSON.stringify(requestBody());
  const own = controller = new AbortController();
  const turn = addTurn("assistant", "");
  turn.startedAt = performance.now();
  turn.article.setAttribute("aria-busy", "true");
  turn.article.classList.add("running");
  setBusy(true);
  let frame = 0;
  let problem = "";
  try {
    const headers = { "Content-Type": "application/json" };
    const response = await request("v1/chat/completions", { method: "POST", headers, body, signal: own.signal });
    for await (const event of events(response)) {
      take(turn, event);
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        show(turn);
      });
    }
  } catch (error) {
    if (own.signal.aborted) turn.end = "stopped";
    else problem = error.message;
  }
  cancelAnimationFrame(frame);
  showEnd(turn, problem);
  if (controller !== own) return;
  controller = null;
  setBusy(false);
  byId("question").focus();
}

function stop() {
  controller?.abort();
}

function regenerate(turn) {
  if (controller || turns.at(-1) !== turn || !settingsAreValid()) return;
  removeTurn(turn);
  answer();
}

function settingsAreValid() {
  if (byId("settings").checkValidity()) return true;
  showPanel("settings", true);
  return byId("settings").reportValidity();
}

function send(event) {
  event.preventDefault();
  const question = byId("question");
  const content = question.value.trim();
  if (!content || controller || !settingsAreValid()) return;
  question.value = "";
  fitQuestion();
  addTurn("user", content);
  answer();
}

function newChat() {
  stop();
  controller = null;
  setBusy(false);
  turns.forEach((turn) => turn.article.remove());
  turns = [];
  byId("empty").hidden = false;
  byId("question").focus();
}

// ---- The rest of the page

function fitQuestion() {
  const { style } = byId("question");
  style.height = "auto";
  style.height = `${byId("question").scrollHeight + 2}px`;
}

function showPanel(id, shown) {
  byId(id).hidden = !shown;
  byId(`show-${id}`).setAttribute("aria-expanded", String(shown));
  document.body.classList.toggle(`with-${id}`, shown);
}

/** Over plain HTTP to another machine browsers have no clipboard interface; the old way still works there. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch {
    // none, or not allowed
  }
  const area = part("textarea", "", document.body);
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
}

async function onCopy(event) {
  const copy = event.target.closest(".copy");
  if (!copy) return;
  await copyText(copy.dataset.copy);
  copy.textContent = "Copied";
  setTimeout(() => { copy.textContent = "Copy"; }, 1500);
}

const THEMES = [["system", "◐", "as the system"], ["light", "☀", "light"], ["dark", "☾", "dark"]];

function setTheme(name) {
  const [theme, sign, said] = THEMES.find(([known]) => known === name) ?? THEMES[0];
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("vernier-theme", theme);
  byId("theme").textContent = sign;
  byId("theme").setAttribute("aria-label", `Colours: ${said}`);
  byId("theme").title = `Colours: ${said}`;
}

function nextTheme() {
  const at = THEMES.findIndex(([name]) => name === document.documentElement.dataset.theme);
  setTheme(THEMES[(at + 1) % THEMES.length][0]);
}

async function loadFacts() {
  const props = await (await request("props")).json();
  byId("model-name").textContent = props.model;
  document.title = `${props.model} · Vernier`;
  byId("temperature").placeholder = props.default_generation_settings?.temperature ?? "";
  if (props.max_model_len) byId("model-name").title = `${props.max_model_len.toLocaleString("en")} tokens of context`;
  const { data } = await (await request("v1/models")).json();
  byId("model").replaceChildren(...data.map(({ id }) => new Option(id)));
  byId("model").hidden = data.length < 2;
  byId("model-name").hidden = data.length > 1;
}

async function checkHealth() {
  const health = byId("health");
  let said = "ready";
  try {
    await request("health", { quiet: true });
  } catch (error) {
    said = error.status ? "going down" : "unreachable";
  }
  if (health.textContent === said) return;  // a screen reader is told of changes only
  health.textContent = said;
  health.className = said === "ready" ? "ready" : "";
}

const readMetrics = makeLive(byId("live"));

async function poll() {
  if (!document.hidden) {
    await checkHealth();
    if (!byId("live").hidden) await readMetrics();
  }
  setTimeout(poll, POLL_MS);
}

byId("ask").addEventListener("submit", send);
byId("stop").addEventListener("click", stop);
byId("new-chat").addEventListener("click", newChat);
byId("theme").addEventListener("click", nextTheme);
byId("question").addEventListener("input", fitQuestion);
byId("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
});
byId("settings").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["settings", "live"]) {
  byId(`show-${id}`).addEventListener("click", () => showPanel(id, byId(id).hidden));
}
document.addEventListener("click", onCopy);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !byId("key-dialog").open) stop();
});

setTheme(localStorage.getItem("vernier-theme"));
showPanel("live", matchMedia("(min-width: 60rem)").matches);
loadFacts().catch((error) => { byId("model-name").textContent = error.message; });
poll();
