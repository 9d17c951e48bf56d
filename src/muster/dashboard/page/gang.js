// The page of one gang: its tree, why it waits, what helps, its pods, events and earlier verdicts.
import { address, gangAddress, nodeAddress, onMap } from "./router.js";
import { app, rebuild, throttled } from "./app.js";
import { gangPath, read, Refusal } from "./api.js";
import { element, isolated, linesOf, link, scrolling, sentence, table } from "./elements.js";
import { age, moment, plural, shortName } from "./format.js";
import { swatch } from "./palette.js";
import { meter, verdictChip } from "./verdicts.js";

const ownerAddress = (owner) => address("gangs", [], { owner: `${owner.kind}/${owner.namespace}/${owner.name}` });
const STATES_OF_PODS = new Set(["core", "extra", "foreign", "terminating", "nominated"]);

// A smaller minimum that helps can be planned: a link to that hypothesis.
const SMALLER = /^`(minMember|minSubGroup): (\d+)`(?: on `([^`]+)`)? instead of/;
function tryLink(key, help) {
  const found = SMALLER.exec(help);
  if (!found) return null;
  const [, name, value, group] = found;
  const set = `${key}.${group ? `subGroups.${group}.` : ""}${name}=${value}`;
  return [" ", link(address("what-if", [], { set, run: "1", cycle: "" }), "What if?")];
}

export function gangView(route) {
  const key = route.parts.join("/"),
    node = element("section", { class: "page" });
  let page = null,
    error = null,
    isClosed = false;

  // A gang that is not there is not asked for: it may come, and then its row does.
  async function load() {
    if (!app.shown.gangs.has(key)) {
      page = error = null;
      show();
      return;
    }
    const cycle = app.isLive() ? "" : `?cycle=${app.shown.cycle}`;
    try {
      page = await read(`${gangPath(key)}${cycle}`);
      error = null;
    } catch (why) {
      error = why;
      if (why instanceof Refusal && why.status === 404) page = null;
    }
    if (!isClosed) show();
  }
  const loadSoon = throttled(800, load);

  function show() {
    const row = page?.row || app.shown.gangs.get(key);
    rebuild(
      node,
      element("p", { class: "kicker" }, link(address("gangs"), "Gangs"), " / ", isolated(route.parts[0])),
      element("h1", {}, swatch("core", key), " ", isolated(route.parts.slice(1).join("/"))),
      error ? element("p", { class: "note" }, sentence(error.message)) : null,
      row ? content(row) : error ? null : element("p", { class: "lead" }, "There is no such gang at this moment."),
    );
  }

  function content(row) {
    return [
      heading(row),
      whyPart(row),
      page ? treePart() : element("p", { class: "empty" }, "Reading …"),
      page ? [podsPart(), eventsPart(), historyPart()] : null,
    ];
  }

  function heading(row) {
    const owner = page?.owner ?? row.owner;
    return [
      element(
        "p",
        { class: "headline" },
        verdictChip(row.verdict),
        row.reason ? element("span", { class: "reason" }, row.reason) : null,
        meter(
          row.placed,
          row.placed + row.pending,
          `${row.placed} of ${plural(row.placed + row.pending, "pod")} placed`,
          row.satisfied ? "good" : "warn",
        ),
      ),
      element(
        "dl",
        { class: "facts" },
        fact("Needs", row.needs),
        fact("Core and extra", `${row.core} core, ${row.extra} extra`),
        fact("Queue", link(address("queues", [], { queue: row.queue }), row.queue || "–")),
        fact("Priority", String(row.priority)),
        fact("Preemptibility", row.preemptibility),
        row.position ? fact("Position in line", String(row.position)) : null,
        row.created ? fact("Age", age(row.created)) : null,
        row.domain ? fact("Domain", domainLink(row.domain)) : null,
        owner ? fact("Owner", link(ownerAddress(owner), `${owner.kind} ${owner.namespace}/${owner.name}`)) : null,
      ),
      element(
        "p",
        { class: "actions" },
        link(onMap(key), "On the map"),
        link(address("what-if", [], { without: key, cycle: "" }), "What if it were removed?"),
      ),
    ];
  }

  const fact = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));
  const domainLink = (path, topology) => link(address("map", [], { topology: topology || "", at: path, gang: key }), path);

  function whyPart(row) {
    const isWaiting = row.verdict !== "Scheduled",
      helps = page?.helps || [];
    return element(
      "section",
      { "aria-labelledby": "why" },
      element("h2", { id: "why" }, isWaiting ? "Why it waits" : "How it stands"),
      row.message
        ? element("p", { class: isWaiting ? "statement" : "lead" }, sentence(row.message))
        : isWaiting
          ? null
          : element("p", { class: "lead" }, "It runs; every minimum is met."),
      helps.length
        ? [
            element("h3", {}, "What helps"),
            element(
              "ul",
              { class: "helps" },
              helps.map((one) => element("li", {}, sentence(one), tryLink(key, one))),
            ),
          ]
        : null,
      page?.explain?.length
        ? element(
            "details",
            { "data-key": "explain", open: isWaiting },
            element("summary", {}, "In the words of ", element("code", {}, "muster explain")),
            linesOf(page.explain),
          )
        : null,
    );
  }

  function treePart() {
    const rows = [];
    const visit = (group, level) => {
      rows.push([group, level]);
      for (const child of group.children || []) visit(child, level + 1);
    };
    visit(page.tree, 0);
    const least = (group) =>
      group.counts === "pods"
        ? plural(group.need, "pod")
        : `${group.need} of ${plural((group.children || []).length, "group")}${group.needPods ? ` and ${plural(group.needPods, "pod")}` : ""}`;
    return element(
      "section",
      { "aria-labelledby": "tree" },
      element("h2", { id: "tree" }, "Tree"),
      scrolling(
        "Tree",
        element(
          "table",
          { class: "tree" },
          element("caption", { class: "unseen" }, `Groups of ${key}`),
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              ["Group", "Needs", "Placed", "Together in", "Part"].map((text) => element("th", { scope: "col" }, text)),
            ),
          ),
          element(
            "tbody",
            {},
            rows.map(([group, level]) => {
              const whole = Math.max(group.placed + group.pending + group.succeeded, group.counts === "pods" ? group.need : 0),
                name = element(
                  "th",
                  { scope: "row" },
                  element("span", { class: "unseen" }, `level ${level + 1}: `),
                  level ? element("span", { class: "branch", "aria-hidden": "true" }, "└") : null,
                  isolated(group.name || key),
                );
              name.style.paddingInlineStart = `${0.25 + 1.25 * level}rem`;
              const levels = [group.required && shortName(group.required), group.preferred && `${shortName(group.preferred)} if possible`]
                .filter(Boolean)
                .join(", ");
              return element(
                "tr",
                { class: `part-${group.part}` },
                name,
                element("td", {}, least(group)),
                element(
                  "td",
                  {},
                  meter(
                    group.placed,
                    whole,
                    `${group.placed}/${whole}${group.succeeded ? ` +${group.succeeded} done` : ""}${group.gated ? `, ${group.gated} gated` : ""}`,
                    group.satisfied ? "good" : "warn",
                  ),
                ),
                element("td", {}, levels || "–", group.domain ? [": ", domainLink(group.domain, group.topology)] : null),
                element("td", {}, element("span", { class: `part part-${group.part}` }, group.part)),
              );
            }),
          ),
        ),
      ),
    );
  }

  function podsPart() {
    const pods = [];
    const visit = (group) => {
      for (const pod of group.pods || []) pods.push([group, pod]);
      (group.children || []).forEach(visit);
    };
    visit(page.tree);
    return element(
      "section",
      { "aria-labelledby": "pods" },
      element("h2", { id: "pods" }, `Pods (${pods.length})`),
      pods.length
        ? scrolling(
            "Pods",
            table(
              "Pods",
              [{ text: "pod" }, { text: "group" }, { text: "state" }, { text: "node" }, { text: "message" }],
              pods
                .slice(0, 500)
                .map(([group, pod]) => [
                  pod.name,
                  group.name || "–",
                  [
                    STATES_OF_PODS.has(pod.role || pod.state) ? [swatch(pod.role || pod.state, key), " "] : null,
                    [pod.state, pod.role].filter(Boolean).join(", "),
                  ],
                  pod.node ? link(nodeAddress(pod.node), pod.node) : "–",
                  sentence(pod.message || ""),
                ]),
              true,
            ),
          )
        : element("p", { class: "empty" }, "It has no pods yet."),
      pods.length > 500 ? element("p", { class: "empty" }, `The first 500 of ${pods.length} are listed.`) : null,
    );
  }

  function eventsPart() {
    return element(
      "section",
      { "aria-labelledby": "events" },
      element("h2", { id: "events" }, "Events"),
      page.events.length
        ? scrolling(
            "Events",
            table(
              "Events",
              [{ text: "time" }, { text: "type" }, { text: "reason" }, { text: "object" }, { text: "message" }],
              page.events.map((one) => [moment(one.at), one.type, one.reason, one.object, sentence(one.message)]),
              true,
            ),
          )
        : element("p", { class: "empty" }, "No events yet."),
    );
  }

  function historyPart() {
    return element(
      "section",
      { "aria-labelledby": "history" },
      element("h2", { id: "history" }, "Earlier verdicts"),
      page.history.length
        ? scrolling(
            "Earlier verdicts",
            table(
              "Earlier verdicts",
              [{ text: "cycle" }, { text: "time" }, { text: "verdict" }, { text: "reason" }, { text: "message" }],
              page.history.map((one) => [
                link(gangAddress(key, { cycle: one.cycle }), String(one.cycle)),
                moment(one.at),
                verdictChip(one.verdict),
                one.reason || "–",
                sentence(one.message),
              ]),
              true,
            ),
          )
        : element("p", { class: "empty" }, "No earlier verdict is kept."),
    );
  }

  load();
  return {
    title: key,
    node,
    opened: show,
    update: loadSoon,
    close: () => {
      isClosed = true;
      loadSoon.stop();
    },
    change: (detail) => {
      if (detail.isWhole || detail.gangs.has(key)) {
        show();
        loadSoon();
      }
    },
  };
}
