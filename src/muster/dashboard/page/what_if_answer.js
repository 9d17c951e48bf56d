// The answer to a what-if: figures before and after, gangs that differ, and small maps of nodes that differ.
import { gangAddress } from "./router.js";
import { app } from "./app.js";
import { element, isolated, linesOf, link, scrolling, sentence, table } from "./elements.js";
import { byName, number, plural } from "./format.js";
import { smallMap } from "./small_map.js";
import { verdictChip, VERDICTS } from "./verdicts.js";

const MOST_NODES = 300;
const FIGURES = [
  ["bindings", "pods to bind"],
  ["nominations", "pods to nominate"],
  ["evictions", "pods to evict or move"],
];

export function showAnswer(answer) {
  const gangs = answer.differences.podGroups,
    order = ["Worse", "Leaves", "Comes", "Better", "Differs"];
  gangs.sort((a, b) => order.indexOf(a.change) - order.indexOf(b.change) || byName(`${a.namespace}/${a.name}`, `${b.namespace}/${b.name}`));
  return [
    element("h2", {}, "If you did"),
    element(
      "ul",
      {},
      answer.changes.map((one) => element("li", {}, sentence(one))),
    ),
    figures(answer),
    element("h2", {}, gangs.length ? `${plural(gangs.length, "gang")} would differ` : "No gang would differ"),
    gangs.length ? scrolling("Gangs that differ", gangTable(gangs)) : null,
    element(
      "p",
      { class: "empty" },
      `${plural(answer.differences.unchanged, "gang")} would stay as ${answer.differences.unchanged === 1 ? "it is" : "they are"}.`,
    ),
    maps(answer.map),
    answer.text?.length
      ? element("details", {}, element("summary", {}, "In the words of ", element("code", {}, "muster plan")), linesOf(answer.text))
      : null,
  ];
}

function figures(answer) {
  const counts = (plan) => [
    ...VERDICTS.map((verdict) => [`gangs ${verdict}`, plan.podGroups.filter((gang) => gang.verdict === verdict).length]),
    ...FIGURES.map(([name, text]) => [text, (plan[name] || []).length]),
  ];
  const after = new Map(counts(answer.after));
  const rows = counts(answer.before)
    .filter(([name, value]) => value || after.get(name))
    .map(([name, value]) => {
      const then = after.get(name),
        change = then - value;
      return [
        name,
        number(value),
        element("strong", { class: change ? "differs" : null }, number(then)),
        change ? `${change > 0 ? "+" : "−"}${Math.abs(change)}` : "",
      ];
    });
  return element(
    "div",
    { class: "compare" },
    table(
      "Before and after",
      [{ text: "" }, { text: "before", number: true }, { text: "after", number: true }, { text: "change", number: true }],
      rows,
      true,
    ),
  );
}

function gangTable(gangs) {
  const arrow = (before, after) => (before === after ? before : `${before} → ${after}`),
    text = (standing, name) => (standing ? String(standing[name] || (name === "domain" ? "–" : standing[name])) : "–");
  return table(
    "Gangs that differ",
    [
      { text: "gang" },
      { text: "change" },
      { text: "verdict before" },
      { text: "verdict after" },
      { text: "placed" },
      { text: "elsewhere", number: true },
      { text: "domain" },
    ],
    gangs.map((gang) => {
      const key = `${gang.namespace}/${gang.name}`,
        moved = gang.domains.map((one) => `${one.subGroup ? `${one.subGroup} ` : ""}${one.before || "–"} → ${one.after || "–"}`);
      return [
        link(gangAddress(key), key),
        element("span", { class: `change-${gang.change}` }, gang.change.toLowerCase()),
        gang.before ? verdictChip(gang.before.verdict) : "–",
        gang.after ? verdictChip(gang.after.verdict) : "gone",
        arrow(text(gang.before, "placed"), text(gang.after, "placed")),
        number(gang.elsewhere),
        moved.length ? moved.slice(0, 4).map((one) => element("div", {}, isolated(one))) : text(gang.after || gang.before, "domain"),
      ];
    }),
    true,
  );
}

function maps(map) {
  const count = new Set([...Object.keys(map?.before || {}), ...Object.keys(map?.after || {})]).size;
  if (!count) return null;
  const topology = Object.keys(app.live.topologies)[0] || "",
    resource = app.live.resource("");
  const side = (name, rows) =>
    element(
      "figure",
      {},
      element("figcaption", {}, name),
      smallMap(
        Object.fromEntries(Object.entries(rows).slice(0, MOST_NODES)),
        topology,
        resource,
        `${name}: ${plural(Object.keys(rows).length, "node")} that differ, by ${resource.name}`,
      ),
    );
  return [
    element("h2", {}, `${plural(count, "node")} would differ`),
    element("div", { class: "side-by-side" }, side("Before", map.before), side("After", map.after)),
    count > MOST_NODES ? element("p", { class: "empty" }, `The first ${MOST_NODES} are drawn.`) : null,
  ];
}
