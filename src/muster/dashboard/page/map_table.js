// The map in words: what is inside the selected domain, one row each. The same sums as the tiles.
import { app, rebuild } from "./app.js";
import { address } from "./router.js";
import { element, link, scrolling, table } from "./elements.js";
import { amount, number, plural, shortName } from "./format.js";
import { gangsIn, usageFields } from "./usage.js";

const MOST_ROWS = 200;
const HEAD = ["free", "core", "extra", "foreign", "terminating", "nominated", "cordoned", "lost"];

export function mapTable(map) {
  const body = element("div", {});
  const node = element("details", { class: "map-table" }, element("summary", {}, "The map as a table"), body);
  node.addEventListener("toggle", () => show());

  function show() {
    if (!node.open || !map.at) return;
    const tile = map.at.isNode ? map.at.parent : map.at,
      levels = app.shown.topologies[map.topology] || [],
      { unit, name } = map.resource;
    const rows = tile.children.slice(0, MOST_ROWS).map((child) => {
      const sums = usageFields(child.sums),
        flags = child.isNode ? app.shown.nodes.get(child.name)?.flags || [] : [];
      const gangs = gangsIn(map.rowsBelow(child), name).map(([gang]) => gang);
      return [
        link(
          address("map", [], { topology: map.topology, resource: name, gang: map.gang, at: child.path }),
          child.name === "~" ? "in no domain" : child.name,
        ),
        number(sums.nodes),
        amount(sums.capacity, unit),
        ...HEAD.map((state) => amount(sums[state], unit)),
        gangs.length > 4 ? `${gangs.slice(0, 3).join(", ")} and ${gangs.length - 3} more` : gangs.join(", ") || "–",
        flags.join(", ") || "–",
      ];
    });
    const level = tile.children[0]?.isNode ? "node" : shortName(levels[tile.depth] || "domain");
    const caption = `${tile.path || "All nodes"}: ${plural(tile.children.length, level)}, ${name} by state${tile.children.length > MOST_ROWS ? `; the first ${MOST_ROWS} are listed` : ""}`;
    rebuild(
      body,
      scrolling(
        "The map as a table",
        table(
          caption,
          [
            { text: level },
            { text: "nodes", number: true },
            { text: "all", number: true },
            ...HEAD.map((text) => ({ text: text === "foreign" ? "outside gangs" : text, number: true })),
            { text: "gangs" },
            { text: "flags" },
          ],
          rows,
        ),
      ),
    );
  }

  return { node, show };
}
