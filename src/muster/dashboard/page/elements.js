// Builds the page. Text is always set as text: nothing from the data becomes markup.
import { readable } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

export const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const shape = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
// Names come from others, and may be written from right to left.
export const isolated = (text) => element("bdi", {}, text);
export function link(href, text, attributes) {
  const shown = readable(text);
  return element("a", { href, title: shown === text ? null : text, ...attributes }, isolated(shown));
}

let lastIdentifier = 0;
export const identifier = (prefix) => `${prefix}-${(lastIdentifier += 1)}`;

// A label with its field; a select has options [[value, text], …].
export function field(label, control, isLabelHidden) {
  control.id ||= identifier("field");
  return element("label", { class: "field", for: control.id }, element("span", { class: isLabelHidden ? "unseen" : null }, label), control);
}

// A field for text that is searched for while it is typed.
export function searchField(placeholder, text, onSearch) {
  const input = element("input", { type: "search", placeholder, value: text || "", autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => onSearch(input.value.trim()));
  return input;
}

export function choice(options, value, onChange) {
  const control = element(
    "select",
    {},
    options.map(([key, text]) => element("option", { value: key, selected: key === value }, text)),
  );
  control.addEventListener("change", () => onChange(control.value));
  return control;
}

// Replaces the options of a select where they differ, and keeps what is chosen.
export function setOptions(control, options, value) {
  const text = JSON.stringify(options);
  if (control.dataset.options !== text) {
    control.replaceChildren(...options.map(([key, label]) => element("option", { value: key }, label)));
    control.dataset.options = text;
  }
  if (control.value !== value) control.value = value;
}

// head: [{text, number}], rows: arrays of text or nodes, the first of each names the row.
export function table(caption, head, rows, isCaptionHidden) {
  const cell = (content, i) =>
    i === 0 ? element("th", { scope: "row" }, content) : element("td", { class: head[i]?.number ? "number" : null }, content);
  return element(
    "table",
    {},
    element("caption", { class: isCaptionHidden ? "unseen" : null }, caption),
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        head.map((column) => element("th", { scope: "col", class: column.number ? "number" : null }, column.text)),
      ),
    ),
    element(
      "tbody",
      {},
      rows.map((row) => element("tr", { class: row.class }, row.map(cell))),
    ),
  );
}

// Wide tables scroll by themselves, with the keyboard too.
export const scrolling = (label, ...children) =>
  element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, children);

// Lines of spans with roles, as the command line prints them.
export function linesOf(lines) {
  return element(
    "pre",
    { class: "lines", tabindex: "0" },
    lines.map((line) => [
      line.map((span) => (span.role && span.role !== "plain" ? element("span", { class: `role-${span.role}` }, span.text) : span.text)),
      "\n",
    ]),
  );
}

// `text` in backquotes is a name.
export function sentence(text) {
  return String(text)
    .split("`")
    .map((part, i) => (i % 2 ? element("code", {}, isolated(part)) : part));
}

const byId = (id) => document.getElementById(id);

// lines: [{color, label, value}]
export function showTooltip(title, lines, x, y) {
  const tooltip = byId("tooltip");
  tooltip.replaceChildren(
    element("strong", {}, isolated(title)),
    ...lines.map((line) =>
      element(
        "div",
        {},
        line.swatch || null,
        element("span", { class: "label" }, isolated(line.label)),
        element("span", {}, line.value || ""),
      ),
    ),
  );
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - box.height - 4))}px`;
}

export function hideTooltip() {
  byId("tooltip").hidden = true;
}

let spoken = 0;
// Announced to screen readers; what follows at once replaces it.
export function speak(text) {
  clearTimeout(spoken);
  spoken = setTimeout(() => {
    byId("spoken").textContent = text;
  }, 150);
}
