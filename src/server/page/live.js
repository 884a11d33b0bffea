// The live view: /metrics, read every two seconds, as numbers and small charts.

import { request } from "./api.js";
import { parse, quantiles, total } from "./prometheus.js";
import { chart, drawLines, drawParts } from "./sparkline.js";

const SAMPLES = 60;  // two minutes
const WINDOW = 10;   // samples that a percentile or hit rate is taken over
const QUANTILES = [0.5, 0.95, 0.99];

const count = (value) => Math.round(value).toLocaleString("en");
const rate = (value) => (value < 10 ? value.toFixed(1) : count(value));
const percent = (value) => `${(100 * value).toFixed(value > 0.1 ? 0 : 1)} %`;
export function duration(seconds) {
  if (seconds < 0.01) return `${(1000 * seconds).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  return seconds < 100 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}

// The names of a card's lines (one line alone needs none), how a value is written, and the chart's highest value where it
// is known. `measure` gives the values.
const CARDS = [
  { title: "Tokens out / s", lines: [""], format: rate },
  { title: "Tokens in / s", lines: [""], format: rate },
  { title: "Time to first token", lines: ["p50", "p95", "p99"], format: duration, wide: true },
  { title: "Between two tokens", lines: ["p50", "p95", "p99"], format: duration, wide: true },
  { title: "Choices", lines: ["running", "waiting"], format: count },
  { title: "Prefix hits", lines: [""], format: percent, top: 1 },
];

// Counters of what went wrong: title, metric, and which of its samples count.
const ERRORS = [
  ["Requests failed", "vernier_requests_failed_total"],
  ["Steps failed", "vernier_steps_failed_total"],
  ["Refused, queue full", "vernier_requests_refused_total"],
  ["Aborted or client gone", "vernier_requests_aborted_total"],
  ["Clients too slow", "vernier_http_clients_lagged_total"],
  ["Preemptions", "vernier_preemptions_total"],
  ["Answers 4xx", "vernier_http_requests_total", ({ status }) => status.startsWith("4")],
  ["Answers 5xx", "vernier_http_requests_total", ({ status }) => status.startsWith("5")],
];

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

/** How much a counter rose; null where it is absent or the server began anew. */
function rise(before, now, name) {
  const from = total(before, name);
  const to = total(now, name);
  return from === null || to === null || to < from ? null : to - from;
}

/** Tokens that left the server: each has been timed as a first one or by its gap to the one before. */
function tokensOut(before, now) {
  const first = rise(before, now, "vernier_time_to_first_token_seconds_count");
  const later = rise(before, now, "vernier_inter_token_latency_seconds_count");
  if (first === null || later === null) return rise(before, now, "vernier_generated_tokens_total");
  return first + later;
}

function tokensIn(before, now) {
  return rise(before, now, "vernier_prefix_query_tokens_total") ?? rise(before, now, "vernier_prompt_tokens_total");
}

/** One value for each line of each card. `last` and `first` are the sample before and the window's oldest. */
function measure(first, last, now) {
  const seconds = (now.time - last.time) / 1000;
  const perSecond = (amount) => (amount === null || seconds <= 0 ? null : amount / seconds);
  const hits = rise(first.families, now.families, "vernier_prefix_hit_tokens_total");
  const queries = rise(first.families, now.families, "vernier_prefix_query_tokens_total");
  return [
    [perSecond(tokensOut(last.families, now.families))],
    [perSecond(tokensIn(last.families, now.families))],
    quantiles(first.families, now.families, "vernier_time_to_first_token_seconds", QUANTILES),
    quantiles(first.families, now.families, "vernier_inter_token_latency_seconds", QUANTILES),
    [total(now.families, "vernier_requests_running"), total(now.families, "vernier_requests_waiting")],
    [hits !== null && queries ? hits / queries : null],
  ];
}

/** Cache classes: [{name, held, cached, free}] in shares of the class, with counts where the server tells them. */
function cacheClasses(families) {
  const classes = new Map();
  for (const { labels, value } of families.get("vernier_cache_blocks") ?? []) {
    const window = labels.window ?? "";
    if (!classes.has(window)) classes.set(window, { held: 0, cached: 0, free: 0 });
    classes.get(window)[labels.state] = value;
  }
  if (classes.size > 0) {
    return [...classes].map(([window, blocks]) => {
      const all = Math.max(blocks.held + blocks.cached + blocks.free, 1);
      const name = /^\d+$/.test(window) ? `window of ${count(Number(window))} tokens` : "whole context";
      const text = `held ${count(blocks.held)}, cached ${count(blocks.cached)}, free ${count(blocks.free)} blocks`;
      return { name, text, held: blocks.held / all, cached: blocks.cached / all, free: blocks.free / all };
    });
  }
  const usage = total(families, "vernier_cache_usage_ratio");
  if (usage === null) return [];
  return [{ name: "fullest class", text: `held ${percent(usage)}`, held: usage, cached: 0, free: 1 - usage }];
}

/** Counters of fallbacks, whatever their labels: [[what, times]]. */
function fallbacks(families) {
  const rows = [];
  for (const [name, samples] of families) {
    if (!/^vernier_\w*fallback\w*_total$/.test(name)) continue;
    for (const { labels, value } of samples) {
      const said = Object.entries(labels).filter(([label]) => label !== "model_name").map(([, text]) => text);
      rows.push([said.join(", ") || name, value]);
    }
  }
  return rows.sort((a, b) => b[1] - a[1]);
}

function makeCard({ title, lines, format, wide, top }) {
  const values = lines.map(() => element("b", "value", "–"));
  const frame = chart("chart");
  const legend = element("p", "values", ...lines.map((name, i) => element("span", name && `key key-${i}`, name, " ", values[i])));
  const section = element("section", wide ? "card wide" : "card", element("h2", "", title), legend, frame);
  const series = lines.map(() => []);
  return {
    section,
    add(measured) {
      measured.forEach((value, i) => {
        series[i].push(value);
        if (series[i].length > SAMPLES) series[i].shift();
        values[i].textContent = value === null ? "–" : format(value);
      });
      const said = lines.map((name, i) => `${name} ${values[i].textContent}`.trim()).join(", ");
      drawLines(frame, series, { length: SAMPLES, top, label: `${title}, two minutes; now ${said}` });
    },
    clear() {
      series.forEach((values) => values.splice(0));
    },
  };
}

function makeCache() {
  const rows = element("div", "");
  const legend = element("p", "values", ...["held", "cached", "free"].map((name) => element("span", `key part-${name}`, name)));
  const section = element("section", "card wide", element("h2", "", "Keys and values, by window"), legend, rows);
  return {
    section,
    show(families) {
      const classes = cacheClasses(families);
      section.hidden = classes.length === 0;
      rows.replaceChildren(...classes.map((one) => {
        const frame = chart("bar");
        const parts = ["held", "cached", "free"].map((name) => ({ share: one[name], className: `part-${name}` }));
        drawParts(frame, parts, `${one.name}: ${one.text}`);
        return element("div", "cache", element("p", "", element("span", "", one.name), " ", element("small", "", one.text)), frame);
      }));
    },
  };
}

function makeTable(title) {
  const list = element("dl", "");
  const section = element("section", "card wide", element("h2", "", title), list);
  return {
    section,
    show(rows) {
      section.hidden = rows.length === 0;
      list.replaceChildren(...rows.map(([name, value]) => element(
        "div", value > 0 ? "some" : "", element("dt", "", name), element("dd", "", count(value)))));
    },
  };
}

/** Fills `container`; returns a function that reads the metrics once and shows them. */
export function makeLive(container) {
  const problem = element("p", "problem");
  problem.hidden = true;
  const cards = CARDS.map(makeCard);
  const cache = makeCache();
  const errors = makeTable("Errors since the server began");
  const reasons = makeTable("Fallbacks, by reason");
  cache.section.hidden = errors.section.hidden = reasons.section.hidden = true;
  container.append(problem, ...cards.map((card) => card.section), cache.section, reasons.section, errors.section);
  let history = [];

  function show(families) {
    const now = { time: performance.now(), families };
    const last = history.at(-1) ?? now;
    if (total(families, "vernier_steps_total") < total(last.families, "vernier_steps_total")) {  // the server began anew
      history = [];
      cards.forEach((card) => card.clear());
    }
    const before = history.at(-1) ?? now;
    const first = history.at(-WINDOW) ?? history[0] ?? now;
    measure(first, before, now).forEach((measured, i) => cards[i].add(measured));
    history.push(now);
    if (history.length > WINDOW) history.shift();
    cache.show(families);
    reasons.show(fallbacks(families));
    errors.show(ERRORS.map(([title, name, fits]) => [title, total(families, name, fits)])
                    .filter(([, value]) => value !== null));
  }

  return async () => {
    try {
      const response = await request("metrics", { quiet: true });
      show(parse(await response.text()));
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.status === 401 ? "The live view waits for an API key." : `No metrics: ${error.message}`;
      problem.hidden = false;
    }
  };
}
