// Builds the page. Text is always set as text: nothing from the data becomes markup.
const SVG = document.getElementById("svg-origin").namespaceURI;
let lastIdentifier = 0;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const shape = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const identifier = (prefix) => `${prefix}-${(lastIdentifier += 1)}`;
// Names come from others, and may be written from right to left.
const isolated = (text) => element("bdi", {}, text);

function section(id, title, lead) {
  const node = element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title));
  if (lead) node.append(element("p", { class: "lead" }, lead));
  document.getElementById("main").append(node);
  document.getElementById("contents").append(element("a", { href: `#${id}` }, title), " ");
  return node;
}

// head: [{text, number}], rows: arrays of text or nodes, the first of each names the row.
function table(caption, head, rows, isCaptionHidden) {
  const cell = (content, i) => {
    const isNumber = head[i] && head[i].number;
    return i === 0 ? element("th", { scope: "row" }, content) : element("td", { class: isNumber ? "number" : null }, content);
  };
  return element("table", {},
    element("caption", { class: isCaptionHidden ? "unseen" : null }, caption),
    element("thead", {}, element("tr", {}, head.map((column) => element("th", { scope: "col", class: column.number ? "number" : column.class }, column.text)))),
    element("tbody", {}, rows.map((row) => element("tr", { class: row.class }, row.map(cell)))));
}

// The same as a chart, in a table that is made when it is opened.
function alternative(label, make) {
  const node = element("details", {}, element("summary", {}, "As a table", element("span", { class: "unseen" }, `: ${label}`)));
  node.addEventListener("toggle", () => {
    if (!node.open) return;
    node.replaceChildren(node.firstElementChild, element("div", { class: "scroll", tabindex: "0" }, make()));
  });
  return node;
}

const tooltip = document.getElementById("tooltip");
const spoken = document.getElementById("spoken");

// lines: [{color, label, value}]
function showTooltip(title, lines, x, y) {
  tooltip.replaceChildren(element("strong", {}, title), ...lines.map((line) => element("div", {},
    line.color ? element("i", { class: `swatch ${line.color}` }) : null,
    element("span", { class: "label" }, isolated(line.label)), element("span", {}, line.value || ""))));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - box.height - 4))}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

function speak(text) {
  spoken.textContent = text;
}

addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTooltip();
});
