// The longest waits with their reasons, and every gang in a table to search and sort.
const PAGE_ROWS = 25;

function showLongest(report) {
  const node = section("longest", "Longest waits", "Ten gangs of each run, with the reason for each stretch of waiting. Each bar begins when the gang began to wait; in a gap it was placed.");
  const span = Math.max(1, ...report.variants.flatMap((variant) => variant.longest.map(spanOf)));
  for (const variant of report.variants) {
    if (report.variants.length > 1) node.append(element("h3", {}, isolated(variant.name)));
    if (!variant.longest.length) node.append(element("p", { class: "empty" }, "No gang waited."));
    else node.append(element("ol", { class: "longest" }, variant.longest.map((wait) => longWait(wait, variant, span))));
  }
}

const spanOf = (wait) => (wait.stretches.length ? wait.stretches[wait.stretches.length - 1].to - wait.stretches[0].from : 0);

function longWait(wait, variant, span) {
  const totals = new Map();
  for (const one of wait.stretches) totals.set(one.reason, (totals.get(one.reason) || 0) + one.to - one.from);
  const reasons = [...totals].sort((a, b) => b[1] - a[1]);
  const colors = new Map(reasons.map(([reason], i) => [reason, i < 6 ? COLORS[i] : "c7"]));
  const left = wait.stretchesLeftOff ? `; ${plural(wait.stretchesLeftOff, "shorter stretch").replace("stretchs", "stretches")} not shown` : "";
  return element("li", {},
    element("div", { class: "who" }, element("strong", {}, isolated(wait.gang)),
      element("span", {}, `waited ${duration(wait.waited)}${wait.waiting ? ", and waits still" : ""}`),
      wait.stretches.length ? element("span", {}, `from ${shortMoment(wait.stretches[0].from, variant.begins)}`) : null,
      element("span", {}, `${plural(wait.size, "pod")}, ${plural(wait.gpus, "GPU")}, queue `, isolated(wait.queue || "–"))),
    wait.stretches.length ? stretchPicture(wait, variant, span, colors) : null,
    element("ul", { class: "reasons" }, reasons.slice(0, 6).map(([reason, seconds]) => element("li", { class: colors.get(reason) },
      element("i", { "aria-hidden": "true" }), element("b", { class: "text" }, duration(seconds)), element("span", { class: "text" }, isolated(reason || "no reason known"))))),
    reasons.length > 6 ? element("p", { class: "empty" }, `and ${plural(reasons.length - 6, "more reason")}`) : null,
    alternative(wait.gang, () => table(`Stretches of waiting${left}`, [{ text: "from" }, { text: "to" }, { text: "for", number: true }, { text: "reason" }],
      wait.stretches.map((one) => [shortMoment(one.from, variant.begins), shortMoment(one.to, variant.begins), duration(one.to - one.from), isolated(one.reason)]))));
}

// On the same scale for all: the time since the gang began to wait.
function stretchPicture(wait, variant, span, colors) {
  const picture = shape("svg", { class: "chart", role: "img", "aria-label": `Stretches of waiting of ${wait.gang}: ${wait.stretches.length}` });
  const draw = (width) => {
    const x = (at) => ((at - wait.stretches[0].from) / span) * width;
    picture.setAttribute("viewBox", `0 0 ${width} 36`);
    picture.replaceChildren(shape("line", { class: "axis-line", x1: 0, x2: width, y1: 18.5, y2: 18.5 }));
    for (const one of wait.stretches) {
      const rect = shape("rect", { class: `fill ${colors.get(one.reason)}`, x: x(one.from).toFixed(1), y: 5, width: Math.max(x(one.to) - x(one.from), 1.5).toFixed(1), height: 13 });
      rect.addEventListener("pointermove", (event) => showTooltip(`${shortMoment(one.from, variant.begins)} to ${shortMoment(one.to, variant.begins)}`,
        [{ color: colors.get(one.reason), label: one.reason, value: duration(one.to - one.from) }], event.clientX, event.clientY));
      rect.addEventListener("pointerleave", hideTooltip);
      picture.append(rect);
    }
    picture.append(...tickMarks(timeTicks(span, null, Math.max(4, width / 110)), (at) => (at / span) * width, 0, width, 18));
  };
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.round(picture.parentElement.clientWidth);
    if (!width || Math.abs(width - drawn) < 2) return;
    drawn = width;
    draw(width);
  }).observe(picture);
  return picture;
}

const decoded = (column) => column.rows.map((i) => column.texts[i]);

// [title, column, how a value is shown, whether it is a number]
const GANG_COLUMNS = [["Gang", "name"], ["Queue", "queue"], ["Class", "class_name"], ["Pods", "size", number], ["GPUs", "gpus", number], ["Arrived", "arrived_seconds", shortMoment],
  ["First wait", "first_wait_seconds", (value) => (value === null ? "never started" : duration(value))], ["Waited", "waited_seconds", duration], ["Finished", "finished_seconds", (value, begins) => (value === null ? "–" : shortMoment(value, begins))],
  ["Starts", "starts", number], ["Evicted", "evicted_pods", number], ["Moved", "moved_pods", number], ["Lost GPU h", "lost_gpu_seconds", (value) => number(value / HOUR)],
  ["Domains", "domains", number], ["Verdict", "verdict"], ["Reason", "reason"]];

function showGangs(report) {
  const node = section("gangs", "Gangs", "Search, and sort by a column. Evicted and moved count pods.");
  for (const variant of report.variants) node.append(gangTable(variant, report.variants.length > 1));
}

function gangTable(variant, isNamed) {
  const columns = new Map(GANG_COLUMNS.map(([, key]) => [key, Array.isArray(variant.gangs[key]) ? variant.gangs[key] : decoded(variant.gangs[key])]));
  const texts = columns.get("name").map((name, i) => ["queue", "class_name", "verdict", "reason"].reduce((text, key) => `${text} ${columns.get(key)[i]}`, name).toLowerCase());
  const state = { search: "", sort: "waited_seconds", isDescending: true, page: 0 };
  const search = element("input", { type: "search", placeholder: "name, queue, class, reason", "aria-label": `Search gangs of ${variant.name}` });
  const count = element("span", { class: "empty", role: "status" });
  const back = element("button", { type: "button" }, "Previous"), next = element("button", { type: "button" }, "Next");
  const body = element("tbody", {});
  const heads = GANG_COLUMNS.map(([title, key, show]) => element("th", { scope: "col", class: show ? "number" : null }, element("button", { type: "button", onclick: () => sortBy(key) }, title)));
  const draw = () => {
    const rows = texts.map((_, i) => i).filter((i) => texts[i].includes(state.search));
    rows.sort(compareBy(columns.get(state.sort), state.isDescending));
    state.page = Math.max(0, Math.min(state.page, Math.ceil(rows.length / PAGE_ROWS) - 1));
    const from = state.page * PAGE_ROWS, shown = rows.slice(from, from + PAGE_ROWS);
    body.replaceChildren(...shown.map((i) => element("tr", {}, GANG_COLUMNS.map(([, key, show], column) => {
      const value = columns.get(key)[i];
      const text = key === "domains" && value ? `${value} (least ${variant.gangs.least_domains[i]})` : show ? show(value, variant.begins) : isolated(value);
      return column ? element("td", { class: show ? "number" : null }, text) : element("th", { scope: "row" }, text);
    }))));
    count.textContent = rows.length ? `${number(from + 1)} to ${number(from + shown.length)} of ${plural(rows.length, "gang")}` : "no gang matches";
    if (variant.gangsLeftOff) count.textContent += `; ${number(variant.gangsLeftOff)} that waited less are not listed`;
    back.disabled = !state.page;
    next.disabled = from + PAGE_ROWS >= rows.length;
    GANG_COLUMNS.forEach(([, key], i) => heads[i].setAttribute("aria-sort", key !== state.sort ? "none" : state.isDescending ? "descending" : "ascending"));
  };
  const sortBy = (key) => {
    state.isDescending = state.sort === key ? !state.isDescending : !["name", "queue", "class_name"].includes(key);
    Object.assign(state, { sort: key, page: 0 });
    draw();
  };
  search.addEventListener("input", () => { Object.assign(state, { search: search.value.trim().toLowerCase(), page: 0 }); draw(); });
  back.addEventListener("click", () => { state.page -= 1; draw(); });
  next.addEventListener("click", () => { state.page += 1; draw(); });
  draw();
  return element("div", {}, isNamed ? element("h3", {}, isolated(variant.name)) : null, element("div", { class: "tools" }, search, back, next, count),
    element("div", { class: "scroll-x gang-table", tabindex: "0", role: "region", "aria-label": `Gangs of ${variant.name}` },
      element("table", {}, element("caption", { class: "unseen" }, "Gangs"), element("thead", {}, element("tr", {}, heads)), body)));
}

// Missing values come last, whichever way.
function compareBy(column, isDescending) {
  const sign = isDescending ? -1 : 1;
  return (a, b) => {
    const left = column[a], right = column[b];
    if (left === null || right === null) return (left === null) - (right === null) || a - b;
    return left < right ? -sign : left > right ? sign : a - b;
  };
}
