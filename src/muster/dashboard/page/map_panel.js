// Beside the map: what is selected there, in words and with links.
import { address, gangAddress, nodeAddress, setParams } from "./router.js";
import { app, rebuild } from "./app.js";
import { read } from "./api.js";
import { element, link, sentence } from "./elements.js";
import { amount, number, percent, plural, shortName } from "./format.js";
import { swatch } from "./palette.js";
import { podTable } from "./node.js";
import { gangsIn, usageFields } from "./usage.js";
import { verdictChip } from "./verdicts.js";

const MOST_GANGS = 12;
const ROWS = [
  ["core", "core"],
  ["extra", "extra"],
  ["foreign", "outside gangs"],
  ["terminating", "terminating"],
  ["free", "free"],
  ["cordoned", "free, cordoned"],
  ["lost", "lost"],
  ["nominated", "nominated"],
];

export function mapPanel(map) {
  const node = element("aside", { class: "panel", "aria-label": "Selected" });
  let pods = null,
    wanted = "",
    isClosed = false;

  // The pods of a node come from the server, when the node is selected and when its row changes.
  async function readPods(name, row) {
    if (wanted === name && pods?.row === row) return;
    if (wanted !== name) pods = null;
    wanted = name;
    const asked = { row, page: pods?.page || null, error: "" };
    pods = asked;
    try {
      asked.page = await read(`/api/nodes/${encodeURIComponent(name)}${app.isLive() ? "" : `?cycle=${app.shown.cycle}`}`);
    } catch (why) {
      asked.error = why.message;
    }
    if (wanted !== name || isClosed) return;
    if (asked.page) map.showPods(name, asked.page.pods);
    show();
  }

  function show() {
    if (isClosed || !map.at) return;
    rebuild(node, map.gang ? gangPart() : null, map.at.isNode ? nodePart(map.at) : domainPart(map.at));
  }

  function gangPart() {
    const row = app.shown.gangs.get(map.gang),
      levels = app.shown.topologies[map.topology] || [];
    const domains = [...map.gangDomains]
      .filter((tile) => tile.children[0]?.isNode)
      .map((tile) => tile.path)
      .slice(0, 6);
    return element(
      "section",
      { class: "panel-part" },
      element("h2", {}, swatch("core", map.gang), " ", link(gangAddress(map.gang), map.gang)),
      row
        ? [
            element(
              "p",
              {},
              verdictChip(row.verdict),
              ` ${row.placed} of ${plural(row.placed + row.pending, "pod")} placed, ${row.core} core, ${row.extra} extra`,
            ),
            row.message ? element("p", { class: "lead" }, sentence(row.message)) : null,
          ]
        : element("p", { class: "lead" }, "There is no such gang at this moment."),
      domains.length
        ? element(
            "p",
            {},
            `${shortName(levels[levels.length - 1] || "domain")}: `,
            domains.map((path, i) => [
              i ? ", " : "",
              link(address("map", [], { topology: map.topology, resource: map.resource.name, at: path, gang: map.gang }), path),
            ]),
            map.gangDomains.size > 60 ? " …" : "",
          )
        : null,
      element("p", { class: "actions" }, element("button", { type: "button", onclick: () => setParams({ gang: "" }) }, "Clear")),
    );
  }

  function usage(tile) {
    const sums = usageFields(tile.sums),
      { unit, name } = map.resource;
    return element(
      "table",
      { class: "usage" },
      element("caption", { class: "unseen" }, `${name} by state`),
      element(
        "thead",
        { class: "unseen" },
        element(
          "tr",
          {},
          ["state", name, "share"].map((text) => element("th", { scope: "col" }, text)),
        ),
      ),
      element(
        "tbody",
        {},
        ROWS.filter(([state]) => sums[state] || state === "free").map(([state, text]) =>
          element(
            "tr",
            {},
            element("th", { scope: "row" }, swatch(state, ""), ` ${text}`),
            element("td", { class: "number" }, amount(sums[state], unit)),
            element("td", { class: "number soft" }, percent(sums[state] / sums.capacity)),
          ),
        ),
        element(
          "tr",
          { class: "total" },
          element("th", { scope: "row" }, `all ${shortName(name)}`),
          element("td", { class: "number" }, amount(sums.capacity, unit)),
          element("td", {}),
        ),
      ),
    );
  }

  function gangList(rows) {
    const gangs = gangsIn(rows, map.resource.name);
    if (!gangs.length) return element("p", { class: "empty" }, `No gang holds ${map.resource.name} here.`);
    return [
      element("h3", {}, "Gangs here"),
      element(
        "ul",
        { class: "gang-list" },
        gangs.slice(0, MOST_GANGS).map(([gang, value]) =>
          element(
            "li",
            {},
            element(
              "button",
              {
                type: "button",
                class: "plain",
                "aria-pressed": String(map.gang === gang),
                "aria-label": `Light up ${gang}`,
                onclick: () => setParams({ gang: map.gang === gang ? "" : gang }),
              },
              swatch("core", gang),
            ),
            link(gangAddress(gang), gang),
            element("span", { class: "number" }, amount(value, map.resource.unit)),
          ),
        ),
      ),
      gangs.length > MOST_GANGS ? element("p", { class: "empty" }, `and ${plural(gangs.length - MOST_GANGS, "more gang")}`) : null,
    ];
  }

  function domainPart(tile) {
    const levels = app.shown.topologies[map.topology] || [],
      level = tile.parent ? shortName(levels[tile.depth - 1] || "domain") : "";
    return element(
      "section",
      { class: "panel-part" },
      element("h2", {}, tile.parent ? (tile.path === "~" ? "In no domain" : tile.path) : "All nodes"),
      element("p", { class: "lead" }, `${level ? `${level}, ` : ""}${plural(tile.sums[0], "node")}, by ${map.resource.name}`),
      usage(tile),
      gangList(map.rowsBelow(tile)),
      tile.parent && tile.path !== "~"
        ? element(
            "p",
            { class: "actions" },
            link(address("what-if", [], { drainDomain: `${map.topology}:${tile.path}`, cycle: "" }), `What if this ${level} were drained?`),
          )
        : null,
    );
  }

  function nodePart(tile) {
    const row = app.shown.nodes.get(tile.name);
    if (!row) return element("p", {}, "The node is gone.");
    readPods(tile.name, row);
    return element(
      "section",
      { class: "panel-part" },
      element("h2", {}, link(nodeAddress(tile.name), tile.name)),
      element(
        "p",
        { class: "lead" },
        tile.parent.path ? `in ${tile.parent.path}` : "node",
        row.flags.length ? element("strong", {}, `, ${row.flags.join(", ")}`) : null,
      ),
      usage(tile),
      gangList([row]),
      element("h3", {}, "Pods"),
      pods?.page ? podTable(pods.page.pods.slice(0, 40), true) : element("p", { class: "empty" }, pods?.error || "Reading …"),
      pods?.page && pods.page.pods.length > 40
        ? element("p", { class: "empty" }, `and ${number(pods.page.pods.length - 40)} more on the node's page`)
        : null,
      element("p", { class: "actions" }, link(address("what-if", [], { drain: tile.name, cycle: "" }), "What if this node were drained?")),
    );
  }

  return {
    node,
    show,
    close: () => {
      isClosed = true;
    },
  };
}
