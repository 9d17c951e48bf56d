// How long gangs waited: curves, and tables whose rows are drawn on one scale.
const COLORS = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
const STYLES = ["line", "line", "line", "line", "dashed", "dashed", "dashed", "dashed"];
const DIMENSIONS = [["size", "Pods", "By gang size"], ["class", "Class", "By class"], ["queue", "Queue", "By queue"]];

function showWaits(report) {
  const never = report.variants.some((variant) => variant.waits.all.never_started);
  const node = section("waits", "Waits", "From the arrival of a gang to its first start. The scale is logarithmic from 0 on."
    + (never ? " A gang that never started counts with its time up to the end, so a figure with ≥ is a lower bound." : ""));
  const longest = Math.max(1, ...report.variants.map((variant) => variant.waits.all.longest || 0));
  if (report.variants.length > 1) {
    node.append(element("div", { class: "row wide" }, curveChart({ title: "All gangs", longest, series: report.variants.map((variant, i) => ({
      name: variant.name, color: COLORS[i % 8], style: STYLES[i % 8], curve: variant.waits.all.curve })) })));
  }
  node.append(rangeTable(report, "Every gang", (variant) => [variant.waits.all], longest));
  for (const variant of report.variants) {
    node.append(element("h3", {}, titledNode(report, variant, "Share of gangs that started within")));
    node.append(element("div", { class: "row small" }, DIMENSIONS.map(([key, , title]) => curveChart({ title, longest, series: largestGroups(variant.waits[key]) }))));
  }
  showFullSizes(report, node);
  for (const [key, head, title] of DIMENSIONS) node.append(element("h3", {}, title), rangeTable(report, head, (variant) => variant.waits[key], longest));
}

// Elastic gangs start with a part of their pods: how long until they had all.
function showFullSizes(report, node) {
  const variants = report.variants.filter((variant) => variant.fullSize);
  if (!variants.length) return;
  const longest = Math.max(1, ...variants.map((variant) => variant.fullSize.longest || 0));
  node.append(element("h3", {}, "Elastic gangs: from arrival to full size"),
    element("div", { class: "row wide" }, curveChart({ title: "Share of elastic gangs with all of their pods within", longest, series: variants.map((variant, i) => ({
      name: variant.name, color: COLORS[i % 8], style: STYLES[i % 8], curve: variant.fullSize.curve })) })),
    rangeTable(report, "Time to full size", (variant) => (variant.fullSize ? [variant.fullSize] : []), longest, "never full"));
}

// The eight largest groups, in the order given.
function largestGroups(groups) {
  const least = groups.map((group) => group.gangs).sort((a, b) => b - a)[7] || 0;
  return groups.filter((group) => group.gangs >= least).slice(0, 8).map((group, i) => ({
    name: group.label, color: COLORS[i], style: STYLES[i], curve: group.curve }));
}

function boundText(group, seconds) {
  const isBound = group.bounded_from !== null && seconds !== null && seconds >= group.bounded_from;
  return `${isBound ? "≥ " : ""}${duration(seconds)}`;
}

function rangeTable(report, title, groupsOf, longest, never = "never started") {
  const isCompared = report.variants.length > 1;
  const labels = [...new Set(report.variants.flatMap((variant) => groupsOf(variant).map((group) => group.label)))];
  const rows = labels.flatMap((label) => report.variants.flatMap((variant, i) => {
    const group = groupsOf(variant).find((one) => one.label === label);
    if (!group) return [];
    const name = isCompared ? [isolated(label), " – ", isolated(variant.name)] : isolated(label);
    return [[name, rangePlot(group, longest, isCompared ? COLORS[i % 8] : "c1"), number(group.gangs), group.never_started ? number(group.never_started) : "0",
      boundText(group, group.p50), boundText(group, group.p95), boundText(group, group.p99), boundText(group, group.longest)]];
  }));
  const node = table(`${title}: waits`, [{ text: title }, { text: rangeAxis(longest), class: "plot-cell axis" }, { text: "gangs", number: true }, { text: never, number: true },
    { text: "p50", number: true }, { text: "p95", number: true }, { text: "p99", number: true }, { text: "longest", number: true }], rows, true);
  for (const row of node.tBodies[0].rows) row.cells[1].className = "plot-cell";
  return element("div", { class: "scroll-x" }, node);
}

const rangeX = (seconds, longest) => `${((waitScale(seconds) / (waitScale(longest) || 1)) * 100).toFixed(2)}%`;

function rangeAxis(longest) {
  const ticks = waitTicks(longest, 0.13);
  return shape("svg", { "aria-hidden": "true" }, ticks.map(([at, label], i) => shape("text", { x: rangeX(at, longest), y: 13,
    "text-anchor": i === 0 ? "start" : waitScale(at) / waitScale(longest) > 0.93 ? "end" : "middle" }, label)));
}

// From the median (disc) over p95 (bar) to p99 (line's end).
function rangePlot(group, longest, color) {
  if (group.p50 === null) return "";
  const at = (seconds) => rangeX(seconds, longest);
  return shape("svg", { role: "img", class: color, "aria-label": `p50 ${duration(group.p50)}, p95 ${duration(group.p95)}, p99 ${duration(group.p99)}` },
    shape("line", { class: "grid-line", x1: 0, x2: "100%", y1: 8, y2: 8 }),
    shape("line", { class: "line", x1: at(group.p95), x2: at(group.p99), y1: 8, y2: 8 }),
    shape("line", { x1: at(group.p50), x2: at(group.p95), y1: 8, y2: 8, stroke: "currentColor", "stroke-width": 5 }),
    shape("line", { class: "line", x1: at(group.p99), x2: at(group.p99), y1: 4, y2: 12 }),
    shape("circle", { class: "dot", cx: at(group.p50), cy: 8, r: 5 }));
}
