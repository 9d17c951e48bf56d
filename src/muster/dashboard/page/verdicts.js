// Verdicts of gangs as they are shown everywhere: a word, a sign and a colour.
import { element } from "./elements.js";

export const VERDICTS = ["Scheduled", "Waiting", "Infeasible", "Unknown", "Invalid"];
const SIGNS = { Scheduled: "●", Waiting: "◔", Infeasible: "▲", Unknown: "?", Invalid: "✕" };

export const verdictChip = (verdict) =>
  element(
    "span",
    { class: `verdict verdict-${verdict}` },
    element("span", { "aria-hidden": "true" }, SIGNS[verdict] || "·"),
    ` ${verdict}`,
  );

// How much of a whole there is, with words beside it.
export function meter(value, whole, words, kind = "") {
  const share = whole ? Math.min(1, value / whole) : 0,
    bar = element("i", { class: kind });
  bar.style.width = `${share * 100}%`;
  return element(
    "span",
    { class: "meter" },
    element("span", { class: "meter-track", "aria-hidden": "true" }, bar),
    element("span", { class: "meter-words" }, words),
  );
}
