// GPUs in use by domain: all times at once, and one time that a slider chooses.
// Cividis: dark to bright in the same order for every kind of colour vision.
const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 180, 105], [225, 204, 85], [254, 232, 56]];

function heatColor(share) {
  const position = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(position), CIVIDIS.length - 2), part = position - low;
  return CIVIDIS[low].map((value, i) => Math.round(value + (CIVIDIS[low + 1][i] - value) * part));
}

const CARPET_COLUMNS = 600;
const rgb = (color) => `rgb(${color.join(" ")})`;

function showHeat(report) {
  const variants = report.variants.filter((variant) => variant.heat && variant.heat.times.length && variant.heat.domains.length);
  const level = variants.length ? variants[0].heat.level : "";
  const node = section("topology", "Topology", variants.length ? `GPUs in use in every domain of the level ${level}: over the whole time, and at the moment that the slider shows.` : "");
  if (!variants.length) {
    node.append(element("p", { class: "empty" }, "The cluster has no topology."));
    return;
  }
  for (const variant of variants) fillCapacities(variant.heat);
  const maps = variants.map((variant) => heatMap(report, variant));
  const slider = timeSlider(report, variants[0].begins, Math.max(...variants.map((variant) => variant.heat.times.length)), (at) => maps.forEach((map) => map.show(at)));
  node.append(slider.node, element("div", { class: `row${variants.length === 1 ? " wide" : ""}` }, maps.map((map) => map.node)), heatScale());
  maps.forEach((map) => map.listen(slider.set));
  slider.set(report.horizon / 2);
}

function fillCapacities(heat) {
  heat.capacity.forEach((row, i) => { if (row === null) heat.capacity[i] = heat.capacity[i - 1]; });
}

function timeSlider(report, begins, steps, onChange) {
  const last = Math.max(steps - 1, 1);
  const id = identifier("slider");
  const input = element("input", { type: "range", id, min: 0, max: last, step: 1, "aria-label": "Time of the heat map" });
  const words = element("output", { for: id });
  const button = element("button", { type: "button" }, "Play");
  const node = element("div", { class: "slider" }, button, input, words);
  let timer = 0;
  const show = () => {
    const at = (Number(input.value) / last) * report.horizon;
    words.textContent = moment(at, begins);
    input.setAttribute("aria-valuetext", words.textContent);
    onChange(at);
  };
  const stop = () => { clearInterval(timer); timer = 0; button.textContent = "Play"; };
  input.addEventListener("input", () => { stop(); show(); });
  button.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (Number(input.value) >= last) input.value = 0;
    button.textContent = "Pause";
    timer = setInterval(() => {
      input.value = Number(input.value) + 1;
      show();
      if (Number(input.value) >= last) stop();
    }, 120);
  });
  return { node, set: (at) => { input.value = Math.round((at / report.horizon) * last); show(); } };
}

function heatMap(report, variant) {
  const heat = variant.heat, rows = heat.domains.length;
  const canvas = element("canvas", { width: CARPET_COLUMNS, height: rows, role: "img",
    "aria-label": `Heat map of ${plural(rows, heat.level || "domain")} over time; the table below holds the figures of the chosen moment` });
  canvas.style.height = `${Math.min(Math.max(rows * 16, 96), 420)}px`;
  paint(canvas, heat, report.horizon);
  const cursor = element("div", { class: "carpet-cursor" });
  const picture = element("div", { class: "carpet-picture" }, canvas, cursor);
  const tiles = element("ul", { class: `tiles${rows > 120 ? " many" : ""}` });
  const heading = element("p", { class: "legend" });
  const axis = shape("svg", { class: "chart carpet-axis", "aria-hidden": "true" });
  let chosen = 0;
  const details = alternative(`GPUs by ${heat.level}`, () => heatTable(heat, chosen));
  const node = element("figure", {}, element("figcaption", {}, element("span", { class: "name" }, isolated(titled(report, variant, `GPUs in use by ${heat.level}`)))),
    element("div", { class: "carpet" }, carpetNames(heat.domains), picture, axis), heading, tiles, details);
  new ResizeObserver(() => drawCarpetAxis(axis, Math.round(picture.clientWidth), report.horizon, variant.begins)).observe(picture);
  const show = (at) => {
    chosen = Math.max(indexAt(heat.times, at), 0);
    cursor.style.left = `${(at / report.horizon) * 100}%`;
    drawTiles(tiles, heat, chosen);
    const used = sum(heat.used[chosen]), capacity = sum(heat.capacity[chosen]);
    heading.textContent = `${number(used)} of ${number(capacity)} GPUs in use (${percent(capacity ? used / capacity : null)})`
      + (heat.domainsLeftOff ? `; ${plural(heat.domainsLeftOff, "domain")} not shown` : "");
    if (details.open) details.dispatchEvent(new Event("toggle"));
  };
  return { node, show, listen: (set) => listenToCarpet(canvas, report, variant, set) };
}

const sum = (values) => values.reduce((a, b) => a + (b || 0), 0);
const shareOf = (heat, time, domain) => (heat.capacity[time][domain] ? heat.used[time][domain] / heat.capacity[time][domain] : null);

// Each column shows the last sample before it; what is not known yet, or takes no pods, stays clear.
function paint(canvas, heat, horizon) {
  const context = canvas.getContext("2d"), image = context.createImageData(CARPET_COLUMNS, heat.domains.length);
  for (let column = 0; column < CARPET_COLUMNS; column += 1) {
    const time = indexAt(heat.times, ((column + 0.5) / CARPET_COLUMNS) * horizon);
    for (let domain = 0; time >= 0 && domain < heat.domains.length; domain += 1) {
      const share = shareOf(heat, time, domain), at = 4 * (domain * CARPET_COLUMNS + column);
      if (share === null) continue;
      const [red, green, blue] = heatColor(share);
      image.data.set([red, green, blue, 255], at);
    }
  }
  context.putImageData(image, 0, 0);
}

function carpetNames(domains) {
  const step = Math.ceil(domains.length / 24);
  const node = element("div", { class: "carpet-names", "aria-hidden": "true" });
  let longest = "";
  domains.forEach((name, i) => {
    if (i % step) return;
    const label = element("span", {}, isolated(name));
    label.style.top = `${((i + 0.5) / domains.length) * 100}%`;
    if (name.length > longest.length) longest = name;
    node.append(label);
  });
  node.style.width = `${Math.min(longest.length, 22) * 0.62}em`;
  return node;
}

function drawCarpetAxis(axis, width, horizon, begins) {
  if (!width) return;
  axis.setAttribute("viewBox", `0 0 ${width} 22`);
  axis.replaceChildren(...tickMarks(timeTicks(horizon, begins, Math.max(4, width / 76)), (at) => (at / horizon) * width, 0, width, 0));
}

function drawTiles(tiles, heat, time) {
  const isMany = heat.domains.length > 120;
  tiles.replaceChildren(...heat.domains.map((name, i) => {
    const share = shareOf(heat, time, i);
    const text = share === null ? "takes no pods" : `${number(heat.used[time][i])} of ${number(heat.capacity[time][i])}`;
    const tile = element("li", { class: `tile${share === null ? " away" : ""}`, title: `${name}: ${text}` },
      isMany ? element("span", { class: "unseen" }, `${name}: ${text}`) : [element("span", {}, isolated(name)), element("span", {}, text)]);
    if (share !== null) {
      const color = heatColor(share);
      tile.style.background = rgb(color);
      tile.style.color = 0.3 * color[0] + 0.6 * color[1] + 0.1 * color[2] > 120 ? "#000" : "#fff";
    }
    return tile;
  }));
}

function heatTable(heat, time) {
  return table(`GPUs by ${heat.level}`, [{ text: heat.level || "domain" }, { text: "in use", number: true }, { text: "capacity", number: true }, { text: "share", number: true }],
    heat.domains.map((name, i) => [isolated(name), number(heat.used[time][i]), number(heat.capacity[time][i]), percent(shareOf(heat, time, i))]));
}

function listenToCarpet(canvas, report, variant, set) {
  const heat = variant.heat;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * report.horizon, Math.min(Math.floor(((event.clientY - box.top) / box.height) * heat.domains.length), heat.domains.length - 1)];
  };
  canvas.addEventListener("pointermove", (event) => {
    const [at, domain] = place(event), time = Math.max(indexAt(heat.times, at), 0);
    if (domain < 0) return;
    showTooltip(moment(at, variant.begins), [{ label: heat.domains[domain], value: `${number(heat.used[time][domain])} of ${number(heat.capacity[time][domain])} GPUs` }], event.clientX, event.clientY);
    if (event.buttons & 1) set(at);
  });
  canvas.addEventListener("pointerdown", (event) => set(place(event)[0]));
  canvas.addEventListener("pointerleave", hideTooltip);
}

function heatScale() {
  const ramp = element("i", {});
  ramp.style.background = `linear-gradient(90deg, ${CIVIDIS.map(rgb).join(", ")})`;
  return element("p", { class: "scale" }, "0 %", ramp, "100 % of the domain's GPUs in use", element("i", { class: "away" }), "no node takes pods");
}
