// Queues: one bar each, all on the same scale, so that what queues hold and may hold can be compared.
import { address, gangAddress, setParams } from "./router.js";
import { app, rebuild, throttled } from "./app.js";
import { choice, element, field, isolated, link, scrolling, sentence, setOptions } from "./elements.js";
import { age, byName, number, plural, quantity, shortQuantity } from "./format.js";
import { colorOf } from "./palette.js";
import { verdictChip } from "./verdicts.js";

const MOST_WAITING = 50;
const COLUMNS = [
  ["quota", "Quota"],
  ["limit", "Limit"],
  ["fairShare", "Fair share"],
  ["allocated", "Allocated"],
  ["allocatedNonPreemptible", "Protected"],
  ["requested", "Requested"],
];

export function queuesView(route) {
  const control = choice([], "", (value) => setParams({ resource: value }));
  const body = element("div", {}),
    node = element(
      "section",
      { class: "page wide-page", "aria-labelledby": "queues-title" },
      element("h1", { id: "queues-title" }, "Queues"),
      element("div", { class: "tools" }, field("Resource", control), key()),
      body,
    );
  let current = route;
  const showSoon = throttled(800, show);

  function show() {
    const { queues } = app.shown,
      names = Object.keys(queues.capacity || {});
    const wanted = current.params.get("resource"),
      headline = app.shown.resources.find((one) => names.includes(one.name))?.name,
      resource = names.includes(wanted) ? wanted : headline || names[0] || "";
    setOptions(control, names.length ? names.map((name) => [name, name]) : [["", "none"]], resource);
    const waiting = waitingGangs();
    const most = Math.max(
      quantity(queues.capacity?.[resource]) || 0,
      ...queues.queues.map((queue) =>
        Math.max(quantity(queue.resources[resource]?.requested) || 0, quantity(queue.resources[resource]?.allocated) || 0),
      ),
      1e-9,
    );
    rebuild(
      body,
      element(
        "p",
        { class: "lead" },
        resource
          ? `${shortQuantity(queues.capacity[resource])} ${resource} to share among ${plural(queues.queues.length, "queue")}. All bars have the same scale.`
          : "No resources are shared yet.",
      ),
      scrolling(
        "Queues",
        element(
          "table",
          { class: "queues" },
          element("caption", { class: "unseen" }, `Queues by ${resource}`),
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              element("th", { scope: "col" }, "Queue"),
              element("th", { scope: "col", class: "bar-cell" }, "Held of what it may hold"),
              COLUMNS.map(([, text]) => element("th", { scope: "col", class: "number" }, text)),
              element("th", { scope: "col", class: "number" }, "Waiting"),
            ),
          ),
          element(
            "tbody",
            {},
            ordered(queues.queues).map(([queue, level]) => row(queue, level, resource, most, waiting.get(queue.name)?.length || 0)),
          ),
        ),
      ),
      queues.outside?.length
        ? element("p", { class: "note" }, `In no tree, because a queue above is missing or they go round: ${queues.outside.join(", ")}.`)
        : null,
      waitingPart(waiting),
    );
  }

  function row(queue, level, resource, most, count) {
    const amounts = queue.resources[resource] || {},
      name = element(
        "th",
        { scope: "row" },
        element("span", { class: "unseen" }, `level ${level + 1}: `),
        level ? element("span", { class: "branch", "aria-hidden": "true" }, "└") : null,
        isolated(queue.name),
      );
    name.style.paddingInlineStart = `${1.1 * level}rem`;
    return element(
      "tr",
      { class: current.params.get("queue") === queue.name ? "chosen" : null },
      name,
      element("td", { class: "bar-cell" }, bar(amounts, most)),
      COLUMNS.map(([one]) =>
        element(
          "td",
          { class: "number" },
          amounts[one] === undefined ? "–" : amounts[one] === "unlimited" ? "∞" : shortQuantity(amounts[one]),
        ),
      ),
      element(
        "td",
        { class: "number" },
        count
          ? element(
              "button",
              {
                type: "button",
                class: "plain",
                "aria-label": `${plural(count, "gang")} wait in ${queue.name}`,
                onclick: () => body.querySelector(`#waiting-${CSS.escape(queue.name)}`)?.scrollIntoView({ block: "start" }),
              },
              number(count),
            )
          : "0",
      ),
    );
  }

  function waitingGangs() {
    const byQueue = new Map();
    for (const [name, gang] of app.shown.gangs) {
      if (gang.verdict === "Scheduled") continue;
      if (!byQueue.has(gang.queue)) byQueue.set(gang.queue, []);
      byQueue.get(gang.queue).push([name, gang]);
    }
    for (const gangs of byQueue.values()) gangs.sort((a, b) => (a[1].position || 1e9) - (b[1].position || 1e9) || byName(a[0], b[0]));
    return byQueue;
  }

  function waitingPart(waiting) {
    if (!waiting.size) return element("p", { class: "empty" }, "No gang waits.");
    return [
      element("h2", {}, "Who waits, and for what"),
      [...waiting]
        .sort((a, b) => byName(a[0], b[0]))
        .map(([queue, gangs]) =>
          element(
            "section",
            { class: "waiting", "aria-labelledby": `waiting-${queue}` },
            element(
              "h3",
              { id: `waiting-${queue}` },
              isolated(queue || "no queue"),
              element("small", {}, ` ${plural(gangs.length, "gang")}`),
            ),
            element(
              "ol",
              {},
              gangs
                .slice(0, MOST_WAITING)
                .map(([name, gang]) =>
                  element(
                    "li",
                    {},
                    element(
                      "span",
                      { class: "who" },
                      element("i", { class: `swatch state-core g${colorOf(name)}`, "aria-hidden": "true" }),
                      link(gangAddress(name), name),
                      verdictChip(gang.verdict),
                      gang.created ? element("small", {}, age(gang.created)) : null,
                    ),
                    element("span", { class: "for" }, sentence(gang.message || gang.reason)),
                  ),
                ),
            ),
            gangs.length > MOST_WAITING
              ? element(
                  "p",
                  { class: "empty" },
                  link(address("gangs", [], { queue, verdict: "Waiting" }), `and ${number(gangs.length - MOST_WAITING)} more`),
                )
              : null,
          ),
        ),
    ];
  }

  return {
    title: "Queues",
    node,
    opened: show,
    close: () => showSoon.stop(),
    update: (next) => {
      current = next;
      show();
    },
    change: (detail) => {
      if (detail.isWhole || detail.hasQueues || detail.gangs.size) showSoon();
    },
  };
}

// Parents before their children.
function ordered(queues) {
  const children = new Map(),
    known = new Set(queues.map((queue) => queue.name)),
    rows = [];
  for (const queue of queues) {
    const parent = known.has(queue.parent) ? queue.parent : "";
    children.set(parent, [...(children.get(parent) || []), queue]);
  }
  const visit = (parent, level) =>
    (children.get(parent) || []).forEach((queue) => {
      rows.push([queue, level]);
      visit(queue.name, level + 1);
    });
  visit("", 0);
  return rows;
}

// Allocated with its protected part, requested behind it, and marks where quota, fair share and limit are.
function bar(amounts, most) {
  const at = (name) => {
    const value = quantity(amounts[name]);
    return value === null ? null : Math.min(1, value / most);
  };
  const part = (kind, from, to) => {
    const node = element("i", { class: kind });
    node.style.left = `${from * 100}%`;
    node.style.width = `${Math.max(0, to - from) * 100}%`;
    return node;
  };
  const mark = (kind, where) => {
    if (where === null) return null;
    const node = element("b", { class: kind });
    node.style.left = `${where * 100}%`;
    return node;
  };
  const words = COLUMNS.map(([name, text]) => `${text.toLowerCase()} ${amounts[name] ?? "–"}`).join(", ");
  return element(
    "div",
    { class: "queue-bar", role: "img", "aria-label": words, title: words },
    part("requested", 0, at("requested") || 0),
    part("allocated", 0, at("allocated") || 0),
    part("protected", 0, at("allocatedNonPreemptible") || 0),
    mark("mark-quota", at("quota")),
    mark("mark-fair", at("fairShare")),
    mark("mark-limit", at("limit")),
  );
}

function key() {
  const one = (kind, text) => element("li", {}, element("i", { class: `queue-key ${kind}`, "aria-hidden": "true" }), text);
  return element(
    "ul",
    { class: "legend" },
    one("protected", "protected"),
    one("allocated", "allocated"),
    one("requested", "requested"),
    one("mark-quota", "quota"),
    one("mark-fair", "fair share"),
    one("mark-limit", "limit"),
  );
}
