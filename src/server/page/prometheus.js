// Prometheus' text exposition, and what can be told from two of them.

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /(\w+)="((?:\\.|[^"\\])*)"/g;

function number(text) {
  if (text === "+Inf") return Infinity;
  if (text === "-Inf") return -Infinity;
  return Number(text);
}

/** Name to its samples, [{labels, value}]. Lines that are no samples are passed over. */
export function parse(text) {
  const families = new Map();
  for (const line of text.split("\n")) {
    if (line.startsWith("#")) continue;
    const found = SAMPLE.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(LABEL)) {
      labels[name] = value.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
    }
    if (!families.has(found[1])) families.set(found[1], []);
    families.get(found[1]).push({ labels, value: number(found[3]) });
  }
  return families;
}

/** The sum over a name's samples that `fits`; null where the server has no such metric. */
export function total(families, name, fits = () => true) {
  const samples = families.get(name);
  if (!samples) return null;
  return samples.reduce((sum, { labels, value }) => (fits(labels) ? sum + value : sum), 0);
}

/** Bounds and cumulative counts of a histogram, its label sets added up. */
function buckets(families, name) {
  const counts = new Map();
  for (const { labels, value } of families.get(`${name}_bucket`) ?? []) {
    const bound = number(labels.le);
    counts.set(bound, (counts.get(bound) ?? 0) + value);
  }
  return counts;
}

/** Quantiles of what a histogram counted between two expositions; nulls where that is nothing. */
export function quantiles(before, now, name, wanted) {
  const old = buckets(before, name);
  const counts = [...buckets(now, name)].map(([bound, count]) => [bound, count - (old.get(bound) ?? 0)]);
  counts.sort(([a], [b]) => a - b);
  const all = counts.at(-1)?.[1] ?? 0;
  return wanted.map((quantile) => {
    if (all <= 0) return null;
    const rank = quantile * all;
    const at = counts.findIndex(([, count]) => count >= rank);
    const [bound, count] = counts[at];
    const [below, countBelow] = at > 0 ? counts[at - 1] : [0, 0];
    if (bound === Infinity) return below;  // all that is known: above the last bound
    return count > countBelow ? below + (bound - below) * (rank - countBelow) / (count - countBelow) : bound;
  });
}
