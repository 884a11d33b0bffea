// Small line charts and bars of SVG. Colours come from classes: a style attribute would break the page's policy.

const WIDTH = 200;
const HEIGHT = 40;

export function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** A frame to draw into. */
export function chart(className) {
  return svg("svg", { class: className, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
}

/** The runs of a series without gaps, as points of the frame. */
function runs(values, length, top) {
  const found = [[]];
  values.forEach((value, i) => {
    if (value === null) {
      found.push([]);
      return;
    }
    const x = WIDTH * (i + length - values.length) / Math.max(length - 1, 1);
    found.at(-1).push([x, HEIGHT - 2 - (HEIGHT - 4) * value / top]);
  });
  return found.filter((run) => run.length > 0);
}

/** Draws series of at most `length` values, null for a gap, from zero to `top` or their highest; the newest is right. */
export function drawLines(frame, series, { length, top, label }) {
  const highest = top ?? (Math.max(...series.flat().filter((value) => value !== null), 0) || 1);
  const shapes = [];
  series.forEach((values, i) => {
    for (const run of runs(values, length, highest)) {
      const line = run.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
      if (i === 0 && run.length > 1) {
        const area = `${run[0][0].toFixed(1)},${HEIGHT} ${line} ${run.at(-1)[0].toFixed(1)},${HEIGHT}`;
        shapes.push(svg("polygon", { class: "area", points: area }));
      }
      shapes.push(svg("polyline", { class: `line line-${i}`, points: line }));
    }
  });
  frame.replaceChildren(...shapes);
  frame.setAttribute("aria-label", label);
}

/** Draws parts of a whole side by side: [{share, className}]. */
export function drawParts(frame, parts, label) {
  let x = 0;
  frame.replaceChildren(...parts.map(({ share, className }) => {
    const width = WIDTH * share;
    const part = svg("rect", { class: className, x: x.toFixed(2), y: 0, width: width.toFixed(2), height: HEIGHT });
    x += width;
    return part;
  }));
  frame.setAttribute("aria-label", label);
}
