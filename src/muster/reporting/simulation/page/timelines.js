// What happened over time: resources, gangs, idle GPUs, queues. Variants are beside each other, on the same scales.
function perVariant(report, make) {
  const figures = report.variants.map(make).filter(Boolean);
  return element("div", { class: `row${report.variants.length === 1 ? " wide" : ""}` }, figures);
}

const titled = (report, variant, title) => (report.variants.length === 1 ? title : `${title} – ${variant.name}`);
const titledNode = (report, variant, title) => (report.variants.length === 1 ? title : [title, " – ", isolated(variant.name)]);
const over = (report, variant) => ({ horizon: report.horizon, begins: variant.begins });

function showUtilisation(report) {
  const node = section("utilisation", "Utilisation", "What pods hold, and what of it works: a gang works while enough of its pods run. The dashed line is the capacity of nodes that take pods.");
  const names = [...new Set(report.variants.flatMap((variant) => variant.resources.map((one) => one.name)))];
  names.sort((a, b) => Number(b.endsWith("/gpu")) - Number(a.endsWith("/gpu")));
  for (const name of names) {
    const most = Math.max(...report.variants.map((variant) => highest(variant.resources.filter((one) => one.name === name).flatMap((one) => [one.capacity, one.allocated]))));
    node.append(perVariant(report, (variant) => {
      const one = variant.resources.find((resource) => resource.name === name);
      return one && resourceChart(report, variant, one, most);
    }));
  }
  if (!names.length) node.append(element("p", { class: "empty" }, "No samples."));
}

function resourceChart(report, variant, one, most) {
  const [mean, capacity] = one.means;
  const title = `${one.name}${one.unit && one.unit !== "GPUs" ? `, ${one.unit}` : ""}`;
  const figure = timeChart({ ...over(report, variant), title: titled(report, variant, title), most, unit: one.unit,
    height: one.name.endsWith("/gpu") ? 220 : 150, whole: one.unit === "GPUs",
    series: [{ name: "allocated", line: one.allocated, color: "c1", style: "area" },
      { name: "working", line: one.working, color: "c3", style: "line" },
      { name: "capacity", line: one.capacity, color: "ink", style: "dashed" }],
    extra: (at) => [{ label: "of capacity allocated", value: percent(valueAt(one.allocated, at) / valueAt(one.capacity, at)) }] });
  if (capacity) figure.firstElementChild.append(element("span", { class: "legend" }, `${percent(mean / capacity)} allocated on average`));
  return figure;
}

function showGangsOverTime(report) {
  const node = section("gangs-over-time", "Gangs over time");
  const most = highest(report.variants.flatMap((variant) => Object.values(variant.gangsOverTime)));
  node.append(perVariant(report, (variant) => timeChart({ ...over(report, variant), title: titled(report, variant, "Waiting and working gangs"),
    most, whole: true, unit: "", series: [{ name: "working", line: variant.gangsOverTime.working, color: "c3", style: "line" },
      { name: "waiting", line: variant.gangsOverTime.waiting, color: "c2", style: "area" }] })));
}

function showFragmentation(report) {
  const node = section("fragmentation", "Fragmentation", "Idle GPUs are stranded while gangs wait and none of them can use these GPUs. The largest free block bounds the gang that could start at once in one domain.");
  const most = highest(report.variants.flatMap((variant) => Object.values(variant.idle)));
  node.append(perVariant(report, (variant) => timeChart({ ...over(report, variant), title: titled(report, variant, "Idle GPUs"),
    most, whole: true, unit: "GPUs", series: [{ name: "idle", line: variant.idle.idle, color: "c1", style: "line" },
      { name: "stranded", line: variant.idle.stranded, color: "c2", style: "area" },
      { name: "largest free domain", line: variant.idle.largestDomain, color: "c4", style: "dotted" },
      { name: "largest free node", line: variant.idle.largestNode, color: "c7", style: "dashed" }] })));
  node.append(element("h3", {}, "Domains crossed"), element("div", { class: "row" }, report.variants.map((variant) => domainsTable(report, variant))));
}

function domainsTable(report, variant) {
  const all = variant.domains.reduce((a, b) => a + b, 0);
  const labels = ["as few as possible", "1 more", "2 more", "3 or more"];
  return table(titled(report, variant, "Domains of a gang at its first start"),
    [{ text: "domains" }, { text: "gangs", number: true }, { text: "share", number: true }, { text: "", class: "bar-cell" }],
    variant.domains.map((count, i) => [labels[i], number(count), percent(all ? count / all : null), bar(all ? count / all : 0, i ? "c2" : "c3")]));
}

function bar(share, color, target) {
  const inner = element("div", { class: `bar ${color}` }), track = element("div", { class: "bar-track", "aria-hidden": "true" }, inner);
  inner.style.width = `${Math.min(1, share) * 100}%`;
  if (target === undefined) return track;
  const mark = element("div", { class: "bar-target" });
  mark.style.left = `${Math.min(1, target) * 100}%`;
  track.append(mark);
  return track;
}

function showQueues(report) {
  const node = section("queues", "Queue shares", "What each queue held, against its fair share: what it could claim at that moment, given what it and the others asked for.");
  if (!report.variants.some((variant) => variant.queues.length)) {
    node.append(element("p", { class: "empty" }, "The simulation has no queues."));
    return;
  }
  const most = highest(report.variants.flatMap((variant) => variant.queues.flatMap((queue) => [queue.allocated, queue.fair])));
  for (const variant of report.variants) {
    if (report.variants.length > 1) node.append(element("h3", {}, isolated(variant.name)));
    node.append(element("div", { class: "scroll-x" }, queueTable(variant)), legend([{ name: "allocated", color: "c1", style: "area" }, { name: "fair share", color: "c2", style: "dashed" }]));
    node.append(element("div", { class: "row small" }, variant.queues.map((queue) => timeChart({ ...over(report, variant),
      title: variant.queues.every((one) => one.resource === queue.resource) ? queue.name : `${queue.name}, ${queue.resource}`,
      most, height: 140, isPlain: true, whole: queue.unit === "GPUs", unit: queue.unit,
      series: [{ name: "allocated", line: queue.allocated, color: "c1", style: "area" }, { name: "fair share", line: queue.fair, color: "c2", style: "dashed" }] }))));
    if (variant.queuesLeftOff) node.append(element("p", { class: "empty" }, `${plural(variant.queuesLeftOff, "smaller queue")} not drawn.`));
  }
}

function showPlanner(report) {
  if (!report.variants.some((variant) => variant.planner)) return;
  const node = section("planner", "Planner", "What plans cost as time goes on: steps of search a plan, the share of waiting gangs whose search was cut short before it had an answer (Unknown), and CPU where it was measured.");
  const charts = [["steps", "Steps of search, a plan", "", true], ["unknown", "Share of Unknown", "%", false], ["cpu", "CPU of a plan, milliseconds", "ms", false]];
  for (const [key, title, unit, whole] of charts) {
    const lines = report.variants.map((variant) => variant.planner && variant.planner[key]);
    if (!lines.some(Boolean)) continue;
    node.append(perVariant(report, (variant) => variant.planner && variant.planner[key] && timeChart({ ...over(report, variant),
      title: titled(report, variant, title), most: highest(lines), height: 130, isPlain: true, whole, unit, series: [{ name: title, line: variant.planner[key], color: "c5", style: "line" }] })));
  }
}

function queueTable(variant) {
  const most = Math.max(...variant.queues.flatMap((queue) => queue.means), 1e-9);
  const rows = variant.queues.map((queue) => {
    const [allocated, fair] = queue.means;
    return [isolated(queue.name), queue.resource, withUnit(allocated, queue.unit), withUnit(fair, queue.unit), fair ? percent(allocated / fair) : "–",
      bar(allocated / most, "c1", fair / most)];
  });
  return table("Mean over time: allocated (bar) against fair share (mark)", [{ text: "queue" }, { text: "resource" }, { text: "allocated", number: true },
    { text: "fair share", number: true }, { text: "of it", number: true }, { text: "", class: "bar-cell" }], rows);
}
