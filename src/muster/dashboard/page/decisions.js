// What the scheduler decided, newest first, with the time that each cycle took.
import { address, gangAddress, nodeAddress, setParams } from "./router.js";
import { app, throttled } from "./app.js";
import { read } from "./api.js";
import { choice, element, field, isolated, link, searchField, sentence, shape } from "./elements.js";
import { clock, milliseconds, number, plural } from "./format.js";
import { colorOf } from "./palette.js";

const KINDS = ["bound", "evicted", "moved", "nominated", "released", "refused"];
const SIGNS = { bound: "→", evicted: "⤫", moved: "⇄", nominated: "⇢", released: "○", refused: "!" };
const SHOWN_GROUPS = 6,
  SHOWN_NODES = 4,
  BARS = 120,
  STEP = 60; // cycles that are listed at once

export function decisionsView(route) {
  return new DecisionsView(route);
}

class DecisionsView {
  constructor(route) {
    this.title = "Decisions";
    this.route = route;
    this.older = [];
    this.items = new Map(); // cycle -> what is shown of it
    this.most = STEP;
    this.isComplete = false;
    this.search = searchField("gang, pod or node", route.params.get("q"), (q) => setParams({ q }));
    this.kind = choice([["", "everything"], ...KINDS.map((kind) => [kind, kind])], route.params.get("kind") || "", (value) =>
      setParams({ kind: value }),
    );
    this.chart = element("figure", { class: "cycle-chart" });
    this.list = element("ol", { class: "feed" });
    this.note = element("p", { class: "empty", role: "status" });
    this.more = element("button", { type: "button", onclick: () => this.readOlder() }, "Older cycles");
    this.node = element(
      "section",
      { class: "page", "aria-labelledby": "decisions-title" },
      element("h1", { id: "decisions-title" }, "Decisions"),
      this.chart,
      element("div", { class: "tools" }, field("Search", this.search), field("Show", this.kind)),
      this.list,
      this.note,
      this.more,
    );
    this.showSoon = throttled(300, () => this.show());
  }

  opened() {
    this.show();
  }
  close() {
    this.showSoon.stop();
  }

  update(route) {
    this.route = route;
    if (document.activeElement !== this.search) this.search.value = route.params.get("q") || "";
    this.kind.value = route.params.get("kind") || "";
    this.show();
  }

  change(detail) {
    if (detail.isWhole) Object.assign(this, { older: [], items: new Map(), isComplete: false });
    if (detail.isWhole || detail.cycles.length) this.showSoon();
  }

  cycles() {
    const first = app.shown.cycles.length ? app.shown.cycles[app.shown.cycles.length - 1].cycle : Infinity;
    return [...app.shown.cycles, ...this.older.filter((row) => row.cycle < first)];
  }

  // More of those that are loaded, and then those that are not.
  async readOlder() {
    this.most += STEP;
    if (this.hidden) {
      this.show();
      return;
    }
    const all = this.cycles(),
      before = all.length ? all[all.length - 1].cycle : app.shown.cycle + 1;
    this.more.disabled = true;
    try {
      const { cycles } = await read(`/api/cycles?before=${before}&limit=100`);
      this.older.push(...cycles);
      this.isComplete = !cycles.length;
    } catch (why) {
      this.note.textContent = why.message;
      return;
    } finally {
      this.more.disabled = false;
    }
    this.show();
  }

  // The acts of a cycle that pass the filters.
  acts(row) {
    const q = (this.route.params.get("q") || "").toLowerCase(),
      wanted = this.route.params.get("kind") || "";
    return KINDS.filter((kind) => !wanted || kind === wanted)
      .flatMap((kind) => (row[kind] || []).map((act) => [kind, act]))
      .filter(([, act]) => !q || [act.pod, act.node, act.gang, act.for, act.to].some((text) => text && text.toLowerCase().includes(q)));
  }

  show() {
    const cycles = this.cycles(),
      filter = `${this.route.params.get("kind") || ""} ${this.route.params.get("q") || ""}`.trim();
    this.drawChart(cycles.slice(0, BARS).reverse());
    const rows = cycles.map((row) => [row, this.acts(row)]).filter(([row, acts]) => acts.length || (!filter && row.failures));
    this.hidden = Math.max(0, rows.length - this.most);
    this.place(rows.slice(0, this.most), filter);
    this.more.hidden = this.isComplete && !this.hidden;
    this.note.textContent = this.summary(cycles.length, rows.length, filter);
  }

  summary(all, shown, filter) {
    if (!all) return "No cycle has decided anything yet.";
    if (!shown) return "No decision is like that in the cycles that are loaded.";
    const idle =
      all === shown ? "" : `${plural(all - shown, "more cycle")} ${filter ? "decided nothing of this kind" : "changed nothing"}. `;
    return idle + (this.isComplete && !this.hidden ? "Older cycles are not kept." : "");
  }

  // New cycles come in front; what is there already stays untouched, with its focus and what is open in it.
  place(rows, filter) {
    const before = this.filter === filter ? this.items : new Map();
    this.filter = filter;
    this.items = new Map(rows.map(([row, acts]) => [row.cycle, before.get(row.cycle) || this.cycle(row, acts, filter)]));
    let at = this.list.firstElementChild;
    for (const item of this.items.values()) {
      if (item === at) at = at.nextElementSibling;
      else this.list.insertBefore(item, at);
    }
    while (at) {
      const next = at.nextElementSibling;
      at.remove();
      at = next;
    }
  }

  cycle(row, acts, isFiltered) {
    const groups = grouped(acts);
    const counts = KINDS.filter((kind) => row.counts?.[kind]).map((kind) =>
        element("span", { class: `badge act-${kind}` }, `${number(row.counts[kind])} ${kind}`),
      ),
      rest = groups.slice(SHOWN_GROUPS);
    const left = isFiltered ? 0 : KINDS.reduce((sum, kind) => sum + Math.max(0, (row.counts?.[kind] || 0) - (row[kind] || []).length), 0);
    return element(
      "li",
      {},
      element(
        "div",
        { class: "cycle-head" },
        element(
          "a",
          { href: address("map", [], { cycle: row.cycle }), title: "The cluster as it was after this cycle" },
          `cycle ${number(row.cycle)}`,
        ),
        element("time", { datetime: row.at }, clock(row.at)),
        element("span", { class: "soft" }, milliseconds(row.milliseconds)),
        counts,
        row.failures ? element("span", { class: "badge bad" }, plural(row.failures, "failure")) : null,
      ),
      element(
        "ul",
        { class: "acts" },
        groups.slice(0, SHOWN_GROUPS).map((group) => groupLine(group, row.cycle)),
      ),
      rest.length
        ? element(
            "details",
            { "data-key": `cycle-${row.cycle}` },
            element("summary", {}, `${number(rest.length)} more`),
            element(
              "ul",
              { class: "acts" },
              rest.map((group) => groupLine(group, row.cycle)),
            ),
          )
        : null,
      left ? element("p", { class: "empty" }, `and ${number(left)} that are not listed`) : null,
    );
  }

  drawChart(cycles) {
    if (!cycles.length) {
      this.chart.replaceChildren();
      return;
    }
    const key = `${cycles[0].cycle}-${cycles[cycles.length - 1].cycle}`;
    if (key === this.drawn) return;
    this.drawn = key;
    const most = Math.max(...cycles.map((row) => row.milliseconds), 1),
      sorted = cycles.map((row) => row.milliseconds).sort((a, b) => a - b),
      median = sorted[Math.floor(sorted.length / 2)];
    const width = BARS * 8,
      height = 64,
      words = `Time of the last ${plural(cycles.length, "cycle")}: ${milliseconds(median)} in the middle, ${milliseconds(most)} at most`;
    const picture = shape(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words, preserveAspectRatio: "none", class: "bars" },
      cycles.map((row, i) => {
        const tall = Math.max(1.5, (row.milliseconds / most) * (height - 4));
        return shape(
          "rect",
          {
            x: (BARS - cycles.length + i) * 8 + 1,
            y: height - tall,
            width: 6,
            height: tall,
            class: Object.values(row.counts || {}).some(Boolean) ? "busy" : "idle",
          },
          shape("title", {}, `cycle ${row.cycle}: ${milliseconds(row.milliseconds)}`),
        );
      }),
    );
    this.chart.replaceChildren(element("figcaption", {}, words), picture);
  }
}

// Acts of the same kind on pods of one gang, for the same reason, belong together.
function grouped(acts) {
  const groups = new Map();
  for (const [kind, act] of acts) {
    const key = [kind, act.gang, act.for, act.reason, act.pod ? "" : act.message].join("|");
    if (!groups.has(key)) groups.set(key, { kind, acts: [], key });
    groups.get(key).acts.push(act);
  }
  return [...groups.values()];
}

function groupLine({ kind, acts, key }, cycle) {
  if (acts.length === 1 || !acts[0].pod) return element("li", {}, actLine(kind, acts[0], cycle));
  const [first] = acts,
    nodes = [...new Set(acts.map((act) => act.node))];
  return element(
    "li",
    {},
    signOf(kind),
    ` ${plural(acts.length, "pod")} of `,
    gangLink(first.gang, cycle),
    ` ${WORDS[kind]}`,
    nodes.slice(0, SHOWN_NODES).map((name, i) => [i ? ", " : "", link(nodeAddress(name, { cycle }), name)]),
    nodes.length > SHOWN_NODES ? ` and ${plural(nodes.length - SHOWN_NODES, "more node")}` : null,
    first.for ? [" for ", gangLink(first.for, cycle)] : null,
    first.reason ? element("span", { class: "soft" }, ` ${first.reason}`) : null,
    element(
      "details",
      { "data-key": `${cycle} ${key}` },
      element("summary", {}, "pods"),
      element(
        "ul",
        { class: "acts" },
        acts.map((act) => element("li", {}, actLine(kind, act, cycle))),
      ),
    ),
  );
}

const WORDS = {
  bound: "bound to ",
  evicted: "evicted from ",
  moved: "moved from ",
  nominated: "nominated to ",
  released: "released from ",
};
const signOf = (kind) => element("span", { class: `sign act-${kind}`, "aria-hidden": "true" }, SIGNS[kind]);
const gangLink = (key, cycle) =>
  key
    ? [element("i", { class: `swatch state-core g${colorOf(key)}`, "aria-hidden": "true" }), link(gangAddress(key, { cycle }), key)]
    : "outside gangs";

function actLine(kind, act, cycle) {
  const node = (name) => link(nodeAddress(name, { cycle }), name);
  if (kind === "refused")
    return [
      signOf(kind),
      " ",
      gangLink(act.gang, cycle),
      ` ${act.verdict.toLowerCase()}: `,
      element("span", { class: "soft" }, sentence(act.message || act.reason)),
    ];
  if (!act.pod)
    return [
      signOf(kind),
      " ",
      gangLink(act.gang, cycle),
      ` ${kind} `,
      element("span", { class: "soft" }, sentence(act.message || act.reason || "")),
    ];
  return [
    signOf(kind),
    " ",
    isolated(act.pod),
    ` ${WORDS[kind]}`,
    act.node ? node(act.node) : "–",
    act.to ? [" to ", node(act.to)] : null,
    act.gang ? [" of ", gangLink(act.gang, cycle)] : null,
    act.for ? [" for ", gangLink(act.for, cycle)] : null,
    act.reason ? element("span", { class: "soft" }, ` ${act.reason}`) : null,
  ];
}
