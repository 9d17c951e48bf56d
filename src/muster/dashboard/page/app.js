// What every view shares: the rows that are shown (live, or as they were), and the address.
import { Store } from "./store.js";

const LARGEST_SHARE = 40;

export const app = {
  live: new Store(), // follows the stream, always
  past: new Store(), // one cycle, where the address names one
  shown: null, // one of both
  session: null,
  isLive: () => app.shown === app.live,
};
app.shown = app.live;

// Runs at most once in a while, the last time included. What takes long runs more seldom: never more than a part of the time.
export function throttled(wait, act) {
  let timer = 0,
    next = -Infinity;
  const run = () => {
    const start = performance.now();
    timer = 0;
    act();
    next = performance.now() + Math.max(wait, LARGEST_SHARE * (performance.now() - start));
  };
  const later = () => {
    if (!timer) timer = setTimeout(run, Math.max(0, next - performance.now()));
  };
  later.stop = () => {
    clearTimeout(timer);
    timer = 0;
  };
  return later;
}

// Builds the content of a node again without moving the keyboard's focus or what is open: elements with the same data-key are the same.
export function rebuild(node, ...content) {
  const key = node.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const open = new Map([...node.querySelectorAll("details[data-key]")].map((one) => [one.dataset.key, one.open]));
  const scrolled = new Map(
    [...node.querySelectorAll(".scroll[aria-label]")].map((one) => [one.getAttribute("aria-label"), [one.scrollTop, one.scrollLeft]]),
  );
  node.replaceChildren(...content.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  for (const one of node.querySelectorAll("details[data-key]")) if (open.has(one.dataset.key)) one.open = open.get(one.dataset.key);
  for (const one of node.querySelectorAll(".scroll[aria-label]"))
    if (scrolled.has(one.getAttribute("aria-label"))) [one.scrollTop, one.scrollLeft] = scrolled.get(one.getAttribute("aria-label"));
  if (key)
    [...node.querySelectorAll("a, button, input, select, summary, [tabindex]")]
      .find((one) => keyOf(one) === key)
      ?.focus({ preventScroll: true });
}

const keyOf = (node) => node.dataset.key || node.getAttribute("href") || node.getAttribute("aria-label") || node.textContent;
