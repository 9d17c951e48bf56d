// Colours of gangs and shapes of states. A gang keeps its colour while the page is open; a state has a shape as well,
// so that colour alone never says anything.
import { element } from "./elements.js";

export const COLORS = 12;
export const STATES = ["core", "extra", "foreign", "terminating", "nominated"];
export const STATE_WORDS = {
  core: "core: needed for the minimum",
  extra: "extra: above the minimum",
  foreign: "outside gangs",
  terminating: "terminating",
  nominated: "nominated: will be bound",
  free: "free",
  cordoned: "free, but cordoned",
  lost: "node is lost",
};

const chosen = new Map();
const uses = new Array(COLORS).fill(0);

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

// The colour that the fewest gangs have, from a start that depends on the name: the same for every viewer of few gangs.
export function colorOf(gang) {
  let color = chosen.get(gang);
  if (color !== undefined) return color;
  const start = hash(gang) % COLORS,
    fewest = Math.min(...uses);
  color = start;
  while (uses[color] !== fewest) color = (color + 1) % COLORS;
  uses[color] += 1;
  chosen.set(gang, color);
  return color;
}

// Of a gang that is gone.
export function forgetColor(gang) {
  if (!chosen.has(gang)) return;
  uses[chosen.get(gang)] -= 1;
  chosen.delete(gang);
}

// In the order of names, so that viewers agree.
export function chooseColors(gangs) {
  [...gangs].sort().forEach(colorOf);
}

// The colours of the style sheet, as the scheme of the moment has them.
export function readTheme() {
  const style = getComputedStyle(document.documentElement),
    read = (name) => style.getPropertyValue(name).trim();
  const paper = parse(read("--well"));
  const gangs = Array.from({ length: COLORS }, (_, i) => parse(read(`--g${i}`)));
  return {
    paper: read("--paper"),
    well: read("--well"),
    tile: read("--tile"),
    ink: read("--ink"),
    soft: read("--soft"),
    rule: read("--rule"),
    focus: read("--focus"),
    levels: [read("--level-0"), read("--level-1"), read("--level-2")],
    foreign: read("--foreign"),
    lost: read("--lost"),
    used: read("--used"),
    usedExtra: read("--used-extra"),
    gangs: gangs.map(css),
    light: gangs.map((color) => css(mix(color, paper, 0.5))),
    dim: gangs.map((color) => css(mix(color, paper, 0.82))),
    foreignDim: css(mix(parse(read("--foreign")), paper, 0.7)),
  };
}

const parse = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
const mix = (a, b, part) => a.map((value, i) => Math.round(value + (b[i] - value) * part));
const css = (color) => `#${color.map((value) => value.toString(16).padStart(2, "0")).join("")}`;

export function swatch(state, gang) {
  return element("i", { class: `swatch state-${state} ${gang ? `g${colorOf(gang)}` : "no-gang"}`, "aria-hidden": "true" });
}

export function legend() {
  return element(
    "ul",
    { class: "legend", "aria-label": "States of devices" },
    [...STATES, "free", "cordoned", "lost"].map((state) =>
      element(
        "li",
        {},
        element("i", { class: `swatch state-${state} ${state === "foreign" ? "no-gang" : "g0"}`, "aria-hidden": "true" }),
        STATE_WORDS[state],
      ),
    ),
  );
}
