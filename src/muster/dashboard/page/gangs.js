// All gangs: search, filters, order. Only the rows in sight are in the page, so that ten thousand scroll as easily as ten.
import { gangAddress, onMap, setParams } from "./router.js";
import { app, throttled } from "./app.js";
import { choice, element, field, isolated, link, searchField, sentence, setOptions } from "./elements.js";
import { age, byName, number, plural } from "./format.js";
import { colorOf } from "./palette.js";
import { meter, verdictChip, VERDICTS } from "./verdicts.js";

const ROW = 52,
  NARROW_ROW = 104,
  SPARE = 8;
const SORTS = [
  ["", "waiting first"],
  ["age", "youngest first"],
  ["-age", "oldest first"],
  ["size", "largest first"],
  ["-size", "smallest first"],
  ["priority", "highest priority"],
  ["-priority", "lowest priority"],
  ["name", "name"],
];
const RANK = { Invalid: 0, Infeasible: 1, Waiting: 2, Unknown: 3, Scheduled: 4 };
const NARROW = matchMedia("(max-width: 700px)");

const ORDERS = {
  "": (a, b) => RANK[a.verdict] - RANK[b.verdict] || (a.position || 1e9) - (b.position || 1e9) || byName(a.key, b.key),
  age: (a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : byName(a.key, b.key)),
  size: (a, b) => b.pods - a.pods || byName(a.key, b.key),
  priority: (a, b) => b.priority - a.priority || byName(a.key, b.key),
  name: (a, b) => byName(a.key, b.key),
};
const orderOf = (sort) =>
  sort.startsWith("-") && ORDERS[sort.slice(1)] ? (a, b) => -ORDERS[sort.slice(1)](a, b) : ORDERS[sort] || ORDERS[""];
const ownerText = (owner) => (owner ? `${owner.kind}/${owner.namespace}/${owner.name}` : "");

export function gangsView(route) {
  return new GangsView(route);
}

class GangsView {
  constructor(route) {
    this.title = "Gangs";
    this.route = route;
    this.search = searchField("name, owner, message", route.params.get("q"), (q) => setParams({ q }));
    this.filters = {};
    for (const name of ["namespace", "queue", "verdict", "reason"])
      this.filters[name] = choice([], "", (value) => setParams({ [name]: value }));
    this.sort = choice(SORTS, route.params.get("sort") || "", (value) => setParams({ sort: value }));
    this.count = element("p", { class: "count", role: "status" });
    this.owner = element("p", { class: "chips" });
    this.body = element("tbody", {});
    this.table = element(
      "table",
      { class: "gangs" },
      element("caption", { class: "unseen" }, "Gangs"),
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ["Gang", "Verdict", "Placed", "Queue", "Priority", "Age", "Why"].map((text) => element("th", { scope: "col" }, text)),
        ),
      ),
      this.body,
    );
    this.scroll = element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Gangs" }, this.table);
    this.scroll.addEventListener("scroll", () => this.paintSoon(), { passive: true });
    this.scroll.addEventListener("keydown", (event) => this.key(event));
    this.node = element(
      "section",
      { class: "page wide-page", "aria-labelledby": "gangs-title" },
      element("h1", { id: "gangs-title" }, "Gangs"),
      app.session?.namespaces
        ? element("p", { class: "lead" }, `Of the namespaces that you may see: ${app.session.namespaces.join(", ") || "none"}.`)
        : null,
      element(
        "div",
        { class: "tools" },
        field("Search", this.search),
        field("Namespace", this.filters.namespace),
        field("Queue", this.filters.queue),
        field("Verdict", this.filters.verdict),
        field("Reason", this.filters.reason),
        field("Order", this.sort),
      ),
      this.owner,
      this.count,
      this.scroll,
    );
    this.listSoon = throttled(500, () => this.list());
    this.observer = new ResizeObserver(() => this.paintSoon());
    this.clock = setInterval(() => this.paintSoon(true), 10_000);
  }

  opened() {
    this.observer.observe(this.scroll);
    this.list();
  }

  close() {
    this.listSoon.stop();
    clearInterval(this.clock);
    this.observer.disconnect();
  }

  update(route) {
    this.route = route;
    if (document.activeElement !== this.search) this.search.value = route.params.get("q") || "";
    this.scroll.scrollTop = 0;
    this.list();
  }

  change(detail) {
    if (detail.isWhole || detail.gangs.size) this.listSoon();
  }

  // Which rows there are, in which order.
  list() {
    const get = (name) => this.route.params.get(name) || "",
      q = get("q").toLowerCase(),
      owner = get("owner");
    const all = [...app.shown.gangs].map(([key, row]) => ({ key, namespace: key.slice(0, key.indexOf("/")), ...row }));
    this.showFilters(all, get);
    this.rows = all
      .filter(
        (row) =>
          ["namespace", "queue", "verdict", "reason"].every((name) => !get(name) || row[name] === get(name)) &&
          (!owner || ownerText(row.owner) === owner) &&
          (!q ||
            row.key.toLowerCase().includes(q) ||
            row.message.toLowerCase().includes(q) ||
            ownerText(row.owner).toLowerCase().includes(q)),
      )
      .sort(orderOf(get("sort")));
    const words =
      this.rows.length === all.length ? plural(all.length, "gang") : `${number(this.rows.length)} of ${plural(all.length, "gang")}`;
    if (this.count.textContent !== words) this.count.textContent = words;
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.paint(true);
  }

  showFilters(all, get) {
    for (const [name, control] of Object.entries(this.filters)) {
      const values = name === "verdict" ? VERDICTS : [...new Set([...all.map((row) => row[name]), get(name)])].filter(Boolean).sort(byName);
      setOptions(control, [["", "all"], ...values.map((value) => [value, value])], get(name));
    }
    this.sort.value = get("sort");
    const owner = get("owner");
    this.owner.hidden = !owner;
    if (owner)
      this.owner.replaceChildren(
        element(
          "span",
          { class: "chip" },
          "owner ",
          isolated(owner),
          element(
            "button",
            { type: "button", class: "plain", "aria-label": "Show gangs of every owner", onclick: () => setParams({ owner: "" }) },
            "×",
          ),
        ),
      );
  }

  paintSoon(isForced) {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint(isForced);
    });
  }

  // The rows in sight, between two empty rows as tall as all others.
  paint(isForced) {
    if (!this.rows) return;
    const height = NARROW.matches ? NARROW_ROW : ROW,
      view = this.scroll.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / height) - SPARE),
      last = Math.min(this.rows.length, Math.ceil((this.scroll.scrollTop + view) / height) + SPARE);
    if (!isForced && first === this.first && last === this.last) return;
    [this.first, this.last] = [first, last];
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const rows = this.rows.slice(first, last).map((row, i) => this.row(row, first + i));
    this.body.replaceChildren(spacer(first * height), ...rows, spacer((this.rows.length - last) * height));
    if (!this.rows.length)
      this.body.replaceChildren(
        element(
          "tr",
          {},
          element("td", { colspan: 7, class: "empty" }, app.shown.gangs.size ? "No gang is like that." : "There are no gangs yet."),
        ),
      );
    if (focused) this.body.querySelector(`a[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  row(row, index) {
    const [namespace, ...name] = row.key.split("/");
    return element(
      "tr",
      { "aria-rowindex": index + 2, "data-index": index },
      element(
        "th",
        { scope: "row" },
        element(
          "div",
          { class: "gang-name" },
          element("a", {
            href: onMap(row.key),
            class: `swatch state-core g${colorOf(row.key)}`,
            title: "Light up on the map",
            "aria-label": `Light up ${row.key} on the map`,
            tabindex: "-1",
          }),
          element(
            "span",
            {},
            link(gangAddress(row.key), name.join("/"), { "data-key": row.key }),
            element("small", {}, isolated(namespace), row.owner ? ` · ${row.owner.kind} ${row.owner.name}` : null),
          ),
        ),
      ),
      element("td", {}, verdictChip(row.verdict)),
      element(
        "td",
        {},
        meter(row.placed, row.placed + row.pending, `${row.placed}/${row.placed + row.pending}`, row.satisfied ? "good" : "warn"),
        element("small", {}, row.needs),
      ),
      element("td", {}, isolated(row.queue || "–")),
      element("td", { class: "number" }, String(row.priority)),
      element("td", { class: "number" }, row.created ? age(row.created) : "–"),
      element(
        "td",
        { class: "why" },
        row.reason ? element("span", { class: "reason" }, row.reason) : null,
        " ",
        element("span", { class: "message" }, sentence(row.message || "")),
      ),
    );
  }

  // Up and down between rows, also to those that are not in the page yet.
  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    const here = event.target.closest?.("tr[data-index]");
    if (!(event.key in steps) || (!here && !["ArrowDown", "ArrowUp"].includes(event.key)) || !this.rows.length) return;
    event.preventDefault();
    const index = Math.min(Math.max((here ? Number(here.dataset.index) : this.first - 1) + steps[event.key], 0), this.rows.length - 1),
      height = NARROW.matches ? NARROW_ROW : ROW;
    const top = index * height;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top + height > this.scroll.scrollTop + this.scroll.clientHeight - 40)
      this.scroll.scrollTop = top + height - this.scroll.clientHeight + 40;
    this.paint(true);
    this.body.querySelector(`tr[data-index="${index}"] a[data-key]`)?.focus({ preventScroll: true });
  }
}

function spacer(height) {
  const row = element("tr", { class: "spacer", "aria-hidden": "true" }, element("td", { colspan: 7 }));
  row.firstChild.style.height = `${height}px`;
  row.hidden = !height;
  return row;
}
