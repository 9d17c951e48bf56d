// Line charts with round ticks, a crosshair for mouse and keyboard, and a table beside each.
const DASHES = { line: "", dashed: "dashed", dotted: "dotted", area: "" };
const timeCharts = new Set(); // share a crosshair

function legend(series) {
  return element("div", { class: "legend", "aria-hidden": "true" }, series.map((one) => element("span", {},
    shape("svg", { width: 22, height: 10, class: one.color },
      one.style === "area" ? shape("rect", { class: "area", x: 0, y: 1, width: 22, height: 8 }) : null,
      shape("line", { class: `line ${DASHES[one.style]}`, x1: 0, x2: 22, y1: one.style === "area" ? 1 : 5, y2: one.style === "area" ? 1 : 5 })),
    isolated(one.name))));
}

// The sample that holds at a time: the last that is not later.
function indexAt(times, at) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= at) low = middle + 1; else high = middle;
  }
  return low - 1;
}

function valueAt(line, at) {
  const i = indexAt(line.t, at);
  return i < 0 ? null : line.v[i];
}

const highest = (lines) => lines.reduce((most, line) => (line ? line.v.reduce((a, b) => Math.max(a, b ?? 0), most) : most), 0);

function drawAxes(root, frame, xTicks, yTicks, yText) {
  for (const value of yTicks) {
    const y = frame.y(value);
    root.append(shape("line", { class: value ? "grid-line" : "axis-line", x1: frame.left, x2: frame.right, y1: y, y2: y }),
      shape("text", { x: frame.left - 6, y: y + 4, "text-anchor": "end" }, yText(value)));
  }
  root.append(...tickMarks(xTicks, frame.x, frame.left, frame.right, frame.bottom));
}

// Ticks below an axis; a label that would touch the one before it is left out.
function tickMarks(ticks, scale, left, right, y) {
  let free = -Infinity;
  return ticks.flatMap(([at, label]) => {
    const x = scale(at), half = label.length * 3.3;
    const anchor = x - half < left ? "start" : x + half > right ? "end" : "middle";
    const from = anchor === "start" ? x : anchor === "end" ? x - 2 * half : x - half;
    const line = shape("line", { class: "axis-line", x1: x, x2: x, y1: y, y2: y + 4 });
    if (from < free) return [line];
    free = from + 2 * half + 8;
    return [line, shape("text", { x, y: y + 17, "text-anchor": anchor }, label)];
  });
}

function frameOf(width, height, yTicks, yText, xScale) {
  const left = Math.max(width < 300 ? 40 : 62, 12 + 7 * Math.max(...yTicks.map((value) => yText(value).length)));
  const right = width - 4, top = 8, bottom = height - 24;
  const most = yTicks[yTicks.length - 1];
  return { left, right, top, bottom, width, height,
    x: (value) => left + xScale(value) * (right - left),
    y: (value) => bottom - (Math.max(0, value) / most) * (bottom - top) };
}

// One path that goes on at each value until the next time.
function stepPath(line, frame, end) {
  let path = "", isDown = false;
  for (let i = 0; i < line.t.length; i += 1) {
    if (line.v[i] === null) { isDown = false; continue; }
    const x = frame.x(line.t[i]).toFixed(1), y = frame.y(line.v[i]).toFixed(1);
    path += isDown ? `H${x}V${y}` : `M${x} ${y}`;
    isDown = true;
  }
  return isDown ? `${path}H${frame.x(end).toFixed(1)}` : path;
}

function curvePath(points, frame) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${frame.x(x).toFixed(1)} ${frame.y(y).toFixed(1)}`).join("");
}

// A figure that draws itself again when its width changes; draw(svg, width) fills it. Plain: without a legend.
function drawnFigure(title, label, series, draw, makeTable, isPlain) {
  const picture = shape("svg", { class: "chart", role: "img", tabindex: "0", "aria-label": label });
  const node = element("figure", {},
    element("figcaption", {}, element("span", { class: "name" }, isolated(title)), isPlain ? null : legend(series)), picture, alternative(title, makeTable));
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.round(node.clientWidth);
    if (!width || Math.abs(width - drawn) < 2) return;
    drawn = width;
    picture.replaceChildren();
    draw(picture, width);
  }).observe(node);
  return node;
}

// options: title, series [{name, line, color, style}], horizon, begins, most (of the y axis), unit, whole, extra(time) -> lines of the tooltip
function timeChart(options) {
  const series = options.series.filter((one) => one.line);
  const label = `${options.title}: line chart over time. ${series.map((one) => `${one.name} at most ${number(highest([one.line]))}`).join(", ")}. Arrow keys move through time.`;
  const lineTable = () => {
    const rows = Array.from({ length: 25 }, (_, i) => (i * options.horizon) / 24);
    return table(options.title, [{ text: "time" }, ...series.map((one) => ({ text: one.name, number: true }))],
      rows.map((at) => [shortMoment(at, options.begins), ...series.map((one) => withUnit(valueAt(one.line, at), options.unit))]));
  };
  return drawnFigure(options.title, label, series, (picture, width) => drawTimeChart(picture, width, options, series), lineTable, options.isPlain);
}

const withUnit = (value, unit) => (value === null ? "–" : `${number(value)}${unit ? ` ${unit}` : ""}`);

function drawTimeChart(picture, width, options, series) {
  const height = options.height || 190;
  const ticks = roundTicks(options.most, 4, options.whole);
  const frame = frameOf(width, height, ticks, number, (at) => at / options.horizon);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawAxes(picture, frame, timeTicks(options.horizon, options.begins, Math.max(4, (width - frame.left) / 76)), ticks, number);
  for (const one of series) {
    const path = stepPath(one.line, frame, options.horizon);
    if (!path) continue;
    const start = frame.x(one.line.t[0]).toFixed(1);
    if (one.style === "area") picture.append(shape("path", { class: `area ${one.color}`, d: `${path}V${frame.bottom}H${start}Z` }));
    const isDense = one.line.t.length > 3 * width;
    picture.append(shape("path", { class: `line ${one.color} ${DASHES[one.style]}${isDense ? " dense" : ""}`, d: path }));
  }
  addTimeCursor(picture, frame, options, series);
}

function addTimeCursor(picture, frame, options, series) {
  const cursor = shape("line", { class: "cursor", y1: frame.top, y2: frame.bottom, visibility: "hidden" });
  const dots = series.map((one) => shape("circle", { class: `dot ${one.color}`, r: 3.5, visibility: "hidden" }));
  picture.append(cursor, ...dots);
  picture.cursorAt = (at) => {
    const visibility = at === null || at > options.horizon ? "hidden" : "visible";
    cursor.setAttribute("visibility", visibility);
    dots.forEach((dot) => dot.setAttribute("visibility", "hidden"));
    if (visibility === "hidden") return;
    const x = frame.x(at);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    series.forEach((one, i) => {
      const value = valueAt(one.line, at);
      if (value === null) return;
      dots[i].setAttribute("cx", x);
      dots[i].setAttribute("cy", frame.y(value));
      dots[i].setAttribute("visibility", "visible");
    });
  };
  timeCharts.add(picture);
  picture.frame = frame;
  if (!picture.isListening) listenForCursor(picture, options, series);
  picture.isListening = true;
}

function listenForCursor(picture, options, series) {
  let at = 0;
  const show = (time, x, y, isSpoken) => {
    at = Math.min(Math.max(time, 0), options.horizon);
    timeCharts.forEach((chart) => chart.cursorAt(at));
    const lines = series.map((one) => ({ color: one.color, label: one.name, value: withUnit(valueAt(one.line, at), options.unit) }));
    if (options.extra) lines.push(...options.extra(at));
    const title = moment(at, options.begins);
    showTooltip(title, lines, x, y);
    if (isSpoken) speak(`${title}: ${lines.map((line) => `${line.label} ${line.value}`).join(", ")}`);
  };
  const hide = () => {
    timeCharts.forEach((chart) => chart.cursorAt(null));
    hideTooltip();
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), frame = picture.frame;
    const x = ((event.clientX - box.left) / box.width) * frame.width;
    show(((x - frame.left) / (frame.right - frame.left)) * options.horizon, event.clientX, event.clientY);
  });
  picture.addEventListener("pointerleave", hide);
  picture.addEventListener("blur", hide);
  picture.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10, Home: -100, End: 100 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const box = picture.getBoundingClientRect(), frame = picture.frame;
    const next = Math.min(Math.max(at + steps[event.key] * (options.horizon / 100), 0), options.horizon);
    show(next, box.left + (frame.x(next) / frame.width) * box.width, box.top + 20, true);
  });
}

// Shares of gangs that had started after a wait; series: [{name, color, style, curve, gangs}]
function curveChart(options) {
  const label = `${options.title}: share of gangs that had started after a wait. ${options.series.map((one) => `${one.name}: half within ${duration(curveAt(one, 0.5))}`).join(", ")}.`;
  const shares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1];
  return drawnFigure(options.title, label, options.series, (picture, width) => drawCurveChart(picture, width, options),
    () => table(options.title, [{ text: "share of gangs" }, ...options.series.map((one) => ({ text: one.name, number: true }))],
      shares.map((share) => [percent(share), ...options.series.map((one) => duration(curveAt(one, share)))])));
}

const curveAt = (one, share) => (one.curve.length ? one.curve[Math.max(0, Math.ceil(share * one.curve.length) - 1)] : null);

function drawCurveChart(picture, width, options) {
  const height = 230, scaled = waitScale(options.longest) || 1;
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const frame = frameOf(width, height, ticks, percent, (seconds) => waitScale(seconds) / scaled);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawAxes(picture, frame, waitTicks(options.longest, 52 / width), ticks, percent);
  for (const one of options.series) {
    if (!one.curve.length) continue;
    const points = [[0, 0]];
    one.curve.forEach((seconds, i) => points.push([seconds, (i + 1) / one.curve.length]));
    points.push([options.longest, 1]);
    picture.append(shape("path", { class: `line ${one.color} ${DASHES[one.style]}`, d: curvePath(points, frame) }));
  }
  picture.onpointermove = (event) => {
    const box = picture.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    const reached = Math.min(Math.max((x - frame.left) / (frame.right - frame.left), 0), 1) * scaled;
    const seconds = (10 ** reached - 1) * 5;
    showTooltip(`started within ${duration(seconds)}`, options.series.map((one) => ({ color: one.color, label: one.name,
      value: one.curve.length ? percent((indexAt(one.curve, seconds) + 1) / one.curve.length) : "–" })), event.clientX, event.clientY);
  };
  picture.onpointerleave = hideTooltip;
}
