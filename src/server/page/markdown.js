// The part of Markdown that models write: headings, paragraphs, code, lists, quotes, bold, italic. Text becomes text
// nodes and nothing else, so no answer can bring markup, links or scripts into the page.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,}\s*$/;
const INLINE = /(`+)(.+?)\1(?!`)|\*\*(?=\S)(.+?)\*\*|(?<![\w*])\*(?=\S)([^*]+?)\*(?![\w*])/s;

function element(tag, ...children) {
  const made = document.createElement(tag);
  made.append(...children);
  return made;
}

/** Nodes of one paragraph's text. */
function inline(text) {
  const nodes = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    if (found.index > 0) nodes.push(rest.slice(0, found.index));
    if (found[1]) nodes.push(element("code", found[2]));
    else if (found[3]) nodes.push(element("strong", ...inline(found[3])));
    else nodes.push(element("em", ...inline(found[4])));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest) nodes.push(rest);
  return nodes;
}

/** Lines that begin one block, from `at` on: how many belong to it, and of which kind it is. */
function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  let end = at + 1;
  if (fence) {
    const closes = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
    while (end < lines.length && !closes.test(lines[end])) ++end;
    return { kind: "code", end: Math.min(end + 1, lines.length), body: lines.slice(at + 1, end), language: fence[2] };
  }
  if (HEADING.test(line)) return { kind: "heading", end };
  if (RULE.test(line)) return { kind: "rule", end };
  if (ITEM.test(line)) {
    while (end < lines.length && (ITEM.test(lines[end]) || /^\s+\S/.test(lines[end]) ||
                                  (!lines[end].trim() && ITEM.test(lines[end + 1] ?? "")))) ++end;
    return { kind: "list", end };
  }
  if (QUOTE.test(line)) {
    while (end < lines.length && QUOTE.test(lines[end])) ++end;
    return { kind: "quote", end };
  }
  while (end < lines.length && lines[end].trim() &&
         ![FENCE, HEADING, RULE, ITEM, QUOTE].some((pattern) => pattern.test(lines[end]))) ++end;
  return { kind: "paragraph", end };
}

/** Items by their indentation: a deeper one makes a list inside the item before. */
function list(lines) {
  const levels = [];  // of the lists that are open: {indent, list}
  let root = null;
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (!item) {
      if (line.trim()) levels.at(-1).list.lastElementChild.append("\n", ...inline(line.trim()));
      continue;
    }
    const indent = item[1].replaceAll("\t", "    ").length;
    while (levels.length > 1 && indent < levels.at(-1).indent) levels.pop();
    if (levels.length === 0 || indent > levels.at(-1).indent + 1) {
      const made = element(/\d/.test(item[2]) ? "ol" : "ul");
      if (made.tagName === "OL") made.start = parseInt(item[2], 10);
      if (levels.length > 0) levels.at(-1).list.lastElementChild.append(made);
      root ??= made;
      levels.push({ indent, list: made });
    }
    levels.at(-1).list.append(element("li", ...inline(item[3])));
  }
  return root;
}

function codeBlock(block) {
  const text = block.body.join("\n");
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.className = "copy";
  copy.dataset.copy = text;
  const head = element("div", element("span", block.language), copy);
  const pre = element("pre", element("code", text));
  pre.tabIndex = 0;
  const made = element("figure", head, pre);
  made.className = "code";
  return made;
}

function render(block, lines) {
  switch (block.kind) {
    case "code": return codeBlock(block);
    case "heading": {
      const [, marks, text] = HEADING.exec(lines[0]);
      return element(`h${Math.min(marks.length + 2, 6)}`, ...inline(text));  // the page itself has h1 and h2
    }
    case "rule": return element("hr");
    case "list": return list(lines);
    case "quote": {
      const made = element("blockquote");
      update(made, lines.map((line) => QUOTE.exec(line)[1]).join("\n"));
      return made;
    }
    default: return element("p", ...inline(lines.join("\n")));
  }
}

/** Makes `container` show `text`. Blocks that are as they were stay, so a long answer costs only its last block. */
export function update(container, text) {
  const lines = text.split(/\r?\n/);
  let child = 0;
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      ++at;
      continue;
    }
    const block = blockAt(lines, at);
    const own = lines.slice(at, block.end);
    const source = own.join("\n");
    const old = container.children[child];
    if (!old || old.source !== source) {
      const made = render(block, own);
      made.source = source;
      if (old) old.replaceWith(made);
      else container.append(made);
    }
    ++child;
    at = block.end;
  }
  while (container.children.length > child) container.lastElementChild.remove();
}
