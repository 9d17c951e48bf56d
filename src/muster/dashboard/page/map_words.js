// A tile in words: for the tooltip, and for screen readers.
import { app } from "./app.js";
import { amount, plural, shortName } from "./format.js";
import { STATE_WORDS, swatch } from "./palette.js";
import { gangsIn, partsOf, usageFields } from "./usage.js";

const MOST_PARTS = 8;
const shortState = (state) => STATE_WORDS[state].split(":")[0];

// Everything about a tile, as lines of a tooltip; the part under the pointer first.
export function describeTile(map, tile, part) {
  const { unit, name } = map.resource,
    sums = usageFields(tile.sums);
  const free = { label: `${name} free`, value: `${amount(sums.free, unit)} of ${amount(sums.capacity, unit)}` };
  return tile.isNode ? [...nodeLines(map, tile, part), free] : [domainLine(map, tile), free, ...stateLines(sums, unit)];
}

function nodeLines(map, tile, part) {
  const row = app.shown.nodes.get(tile.name),
    lines = [],
    { unit, name } = map.resource;
  if (!row) return lines;
  const isUnderPointer = (gang, state) => part && gang === part[0] && state === part[1];
  if (part) lines.push({ swatch: swatch(part[1], part[0]), label: part[0] || "outside gangs", value: shortState(part[1]) });
  if (tile.parent.path) lines.push({ label: "in", value: tile.parent.path });
  if (row.flags.length) lines.push({ label: "node is", value: row.flags.join(", ") });
  for (const [gang, state, value] of partsOf(row, name).slice(0, MOST_PARTS))
    if (!isUnderPointer(gang, state))
      lines.push({ swatch: swatch(state, gang), label: gang || "outside gangs", value: `${amount(value, unit)} ${state}` });
  return lines;
}

function domainLine(map, tile) {
  const levels = app.shown.topologies[map.topology] || [];
  return { label: shortName(levels[tile.depth - 1] || "domain"), value: plural(tile.sums[0], "node") };
}

const stateLines = (sums, unit) =>
  ["core", "extra", "foreign", "terminating", "nominated", "cordoned", "lost"]
    .filter((state) => sums[state])
    .map((state) => ({ swatch: swatch(state, ""), label: shortState(state), value: amount(sums[state], unit) }));

// What a screen reader says of the selected tile.
export function tileSentence(map, tile) {
  if (!tile.parent) return `All ${plural(map.tiles.size, "node")}`;
  const sums = usageFields(tile.sums),
    { unit, name } = map.resource,
    row = tile.isNode ? app.shown.nodes.get(tile.name) : null;
  const flags = row?.flags.length ? `, ${row.flags.join(", ")}` : "";
  const gangs = row
    ? gangsIn([row], name)
        .map(([gang]) => gang)
        .join(", ")
    : "";
  return `${tile.isNode ? "node " : ""}${tile.name}: ${amount(sums.free, unit)} of ${amount(sums.capacity, unit)} ${name} free${flags}${gangs ? `; ${gangs}` : ""}`;
}
