// Headline figures, and for several variants what differs from the first, gang by gang.
function showFigures(report) {
  const node = section("figures", "Headline figures");
  if (report.variants.length === 1) {
    node.append(element("dl", { class: "figures" }, report.variants[0].figures.map((figure) => element("div", { class: "card" },
      element("dt", {}, figure.name), element("dd", { class: "amount" }, figureText(figure.amount, figure.unit)), figure.detail ? element("dd", { class: "detail" }, figure.detail) : null))));
    return;
  }
  const names = [...new Set(report.variants.flatMap((variant) => variant.figures.map((figure) => figure.name)))];
  const head = [{ text: "" }, ...report.variants.map((variant, i) => ({ text: isolated(i ? variant.name : `${variant.name} (baseline)`), number: true }))];
  const rows = names.map((name) => [name, ...report.variants.map((variant, i) => figureCell(report, name, i))]);
  node.append(element("div", { class: "scroll-x" }, table("Headline figures", head, rows, true)));
}

function figureCell(report, name, i) {
  const [first, figure] = [report.variants[0], report.variants[i]].map((variant) => variant.figures.find((one) => one.name === name));
  if (!figure) return "–";
  const text = figureText(figure.amount, figure.unit);
  if (!i || !first || first.amount === null || figure.amount === null) return element("strong", {}, text);
  return [element("strong", {}, text), " ", changeText(figure.amount - first.amount, figure)];
}

// In words and in colour, so that either is enough.
function changeText(difference, figure) {
  const shown = figure.unit === "share" ? `${Number((Math.abs(difference) * 100).toFixed(1))} points` : figureText(Math.abs(difference), figure.unit);
  if (!difference || shown === "0 points" || shown === figureText(0, figure.unit)) return element("span", { class: "same" }, "(same)");
  const isBetter = figure.better && (difference > 0) === (figure.better === "higher");
  const judged = figure.better ? (isBetter ? ", better" : ", worse") : "";
  return element("span", { class: figure.better ? (isBetter ? "better" : "worse") : "same" }, `(${difference > 0 ? "+" : "−"}${shown}${judged})`);
}

const MEASURES = { wait: "Wait for the first start", turnaround: "From arrival to end" };

function showPairs(report) {
  if (!report.pairs.length) return;
  const node = section("pairs", "Paired differences", `The same gang under each variant, against ${report.variants[0].name}: what differs from gang to gang cancels out. Negative is shorter. Gangs share one cluster, so the differences are not independent of each other.`);
  const measures = Object.keys(MEASURES).length;
  report.variants.slice(1).forEach((variant, i) => {
    node.append(element("h3", {}, isolated(variant.name), " against ", isolated(report.variants[0].name)));
    const pairs = report.pairs.slice(i * measures, (i + 1) * measures);
    node.append(element("div", { class: "row" }, pairs.map((pair) => binsFigure(pair))));
    for (const pair of pairs) node.append(element("div", { class: "scroll-x" }, differencesTable(pair)), leftOut(pair, report));
    const waits = pairs.find((pair) => pair.measure === "wait");
    if (waits) node.append(element("div", { class: "columns" }, movedTable("Gangs whose wait shrank most", waits.gained), movedTable("Gangs whose wait grew most", waits.lost)));
  });
}

function leftOut(pair, report) {
  const parts = [[pair.only_baseline, `only in ${report.variants[0].name}`], [pair.only_variant, `only in ${pair.variant}`], [pair.neither, "in neither"]].filter(([count]) => count);
  const verb = pair.measure === "wait" ? "started" : "ended";
  return element("p", { class: "empty" }, parts.length ? `Not paired: gangs that ${verb} ${parts.map(([count, where]) => `${where} (${number(count)})`).join(", ")}.` : "Every gang is paired.");
}

function binLabel(bin) {
  if (bin.above === -1 && bin.up_to === 1) return "same";
  if (bin.above === null) return `< ${duration(bin.up_to)}`;
  if (bin.up_to === null) return `> ${duration(bin.above)}`;
  return `${signedDuration(bin.above)} to ${signedDuration(bin.up_to)}`;
}

function binsFigure(pair) {
  const all = pair.all, title = MEASURES[pair.measure];
  const label = `${title}: ${all.shorter} gangs shorter, ${all.same} the same, ${all.longer} longer`;
  return drawnFigure(title, label, [{ name: `${number(all.shorter)} shorter`, color: "c3", style: "area" }, { name: `${number(all.same)} same`, color: "c7", style: "area" }, { name: `${number(all.longer)} longer`, color: "c2", style: "area" }],
    (picture, width) => drawBins(picture, width, pair.bins),
    () => table(title, [{ text: "difference" }, { text: "gangs", number: true }], pair.bins.map((bin) => [binLabel(bin), number(bin.gangs)])));
}

function drawBins(picture, width, bins) {
  const isSame = (bin) => bin.above === -1;
  const height = 190, ticks = roundTicks(Math.max(...bins.map((bin) => (isSame(bin) ? 0 : bin.gangs)), 1), 4, true);
  const frame = frameOf(width, height, ticks, number, (position) => position / bins.length);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const edges = bins.slice(1).map((bin, i) => [i + 1, bin.above]).filter(([, at]) => [MINUTE, HOUR, DAY].includes(Math.abs(at)));
  const labels = [...edges.map(([i, at]) => [i, signedDuration(at)]), [bins.length / 2, "same"]].sort((a, b) => a[0] - b[0]);
  drawAxes(picture, frame, labels, ticks, number);
  bins.forEach((bin, i) => {
    if (isSame(bin)) {
      picture.append(shape("text", { x: frame.x(i + 0.5), y: frame.bottom - 6, "text-anchor": "middle" }, number(bin.gangs)));
      return;
    }
    const color = bin.up_to !== null && bin.up_to <= 0 ? "c3" : "c2";
    const left = frame.x(i) + 1, top = frame.y(bin.gangs);
    const rect = shape("rect", { class: `fill ${color}`, x: left.toFixed(1), y: top.toFixed(1), width: Math.max(frame.x(i + 1) - left - 1, 1).toFixed(1), height: Math.max(frame.bottom - top, 0).toFixed(1) });
    rect.addEventListener("pointermove", (event) => showTooltip(binLabel(bin), [{ color, label: plural(bin.gangs, "gang") }], event.clientX, event.clientY));
    rect.addEventListener("pointerleave", hideTooltip);
    picture.append(rect);
  });
}

function differencesTable(pair) {
  const row = (prefix) => (group) => [prefix ? [`${prefix} `, isolated(group.label)] : group.label, number(group.gangs), number(group.shorter), number(group.same), number(group.longer),
    ...[group.mean, group.p5, group.p50, group.p95].map((value) => element("span", { class: value < -1 ? "better" : value > 1 ? "worse" : "same" }, signedDuration(value)))];
  return table(MEASURES[pair.measure], ["", "gangs", "shorter", "same", "longer", "mean", "p5", "median", "p95"].map((text, i) => ({ text, number: i > 0 })),
    [row("")(pair.all), ...pair.by_queue.map(row("queue")), ...pair.by_class.map(row("class"))]);
}

function movedTable(title, gangs) {
  if (!gangs.length) return element("p", { class: "empty" }, `${title}: none.`);
  return element("div", { class: "scroll-x" }, table(title, [{ text: "gang" }, { text: "before", number: true }, { text: "after", number: true }, { text: "difference", number: true }],
    gangs.map((pair) => [isolated(pair.gang), duration(pair.before), duration(pair.after), signedDuration(pair.after - pair.before)])));
}

function showSettings(report) {
  const node = section("settings", "Settings and seed", "The same scenario, settings and seed give the same report.");
  const keys = [...new Set(report.variants.flatMap((variant) => variant.settings.map(([key]) => key)))];
  const texts = (key) => report.variants.map((variant) => (variant.settings.find(([one]) => one === key) || [key, "–"])[1]);
  const rows = [["seed", ...report.variants.map((variant) => variant.seed)], ["simulated", ...report.variants.map((variant) => duration(variant.horizon))], ...keys.map((key) => [isolated(key), ...texts(key).map(isolated)])];
  rows.slice(2).forEach((row, i) => { if (new Set(texts(keys[i])).size > 1) row.class = "differs"; });
  node.append(element("div", { class: "scroll-x" }, table(report.variants.length > 1 ? "Settings; those that differ are bold" : "Settings",
    [{ text: "setting" }, ...report.variants.map((variant) => ({ text: isolated(variant.name) }))], rows, report.variants.length === 1)));
}
