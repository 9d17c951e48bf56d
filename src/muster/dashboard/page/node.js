// The page of one node: what it offers, who uses it, its pods.
import { address, gangAddress } from "./router.js";
import { app, rebuild, throttled } from "./app.js";
import { read } from "./api.js";
import { element, link, scrolling, table } from "./elements.js";
import { amount, quantity } from "./format.js";
import { swatch } from "./palette.js";
import { partsOf, usageFields, usageOf } from "./usage.js";
import { meter } from "./verdicts.js";

// Pods with their gangs; the short form is for narrow places.
export function podTable(pods, isShort) {
  if (!pods.length) return element("p", { class: "empty" }, "No pods that you may see.");
  const requests = (pod) =>
    Object.entries(pod.requests || {})
      .filter(([, value]) => quantity(value) !== 0)
      .map(([name, value]) => `${value} ${name}`)
      .join(", ") || "–";
  const head = isShort
    ? [{ text: "pod" }, { text: "state" }]
    : [{ text: "pod" }, { text: "gang" }, { text: "subgroup" }, { text: "state" }, { text: "requests" }];
  return table(
    "Pods",
    head,
    pods.map((pod) => {
      const gang = pod.gang || "",
        name = `${pod.namespace}/${pod.name}`,
        state = [swatch(pod.state, gang), ` ${pod.state}`];
      return isShort
        ? [gang ? link(gangAddress(gang), name) : name, state]
        : [name, gang ? link(gangAddress(gang), gang) : "–", pod.subGroup || "–", state, requests(pod)];
    }),
    true,
  );
}

export function nodeView(route) {
  const name = route.parts[0] || "",
    node = element("section", { class: "page" });
  let page = null,
    error = "",
    isClosed = false;

  async function load() {
    if (!app.shown.nodes.has(name)) {
      page = null;
      error = "";
      show();
      return;
    }
    try {
      page = await read(`/api/nodes/${encodeURIComponent(name)}${app.isLive() ? "" : `?cycle=${app.shown.cycle}`}`);
      error = "";
    } catch (why) {
      error = why.message;
    }
    if (!isClosed) show();
  }
  const loadSoon = throttled(800, load);

  function show() {
    const row = app.shown.nodes.get(name);
    rebuild(
      node,
      element("p", { class: "kicker" }, "Node"),
      element("h1", {}, name),
      error ? element("p", { class: "note" }, error) : null,
      row ? content(row) : error ? null : element("p", { class: "lead" }, "There is no such node at this moment."),
    );
  }

  function content(row) {
    const topologies = Object.entries(row.domains).filter(([, path]) => path);
    return [
      element(
        "p",
        { class: "lead" },
        row.flags.length ? element("strong", { class: "bad" }, row.flags.join(", "), ". ") : null,
        topologies.map(([topology, path], i) => [
          i ? " · " : "",
          "in ",
          link(address("map", [], { topology, at: path }), path),
          ` (${topology})`,
        ]),
      ),
      element(
        "p",
        { class: "actions" },
        link(
          address("map", [], { at: topologies.length ? mapPath(topologies[0][1], name) : name, topology: topologies[0]?.[0] || "" }),
          "On the map",
        ),
        link(address("what-if", [], { drain: name, cycle: "" }), "What if it were drained?"),
      ),
      element("h2", {}, "Resources"),
      scrolling("Resources", resourceTable(row)),
      element("h2", {}, `Pods${page ? ` (${page.pods.length})` : ""}`),
      page ? scrolling("Pods", podTable(page.pods)) : element("p", { class: "empty" }, "Reading …"),
      page?.taints.length
        ? [
            element("h2", {}, "Taints"),
            element(
              "ul",
              {},
              page.taints.map((taint) => element("li", {}, element("code", {}, taint))),
            ),
          ]
        : null,
      page?.conditions.length
        ? [
            element("h2", {}, "Conditions"),
            table(
              "Conditions",
              [{ text: "type" }, { text: "status" }],
              page.conditions.map((one) => [one.type, one.status]),
              true,
            ),
          ]
        : null,
      page && Object.keys(page.labels).length
        ? [
            element("h2", {}, "Topology labels"),
            table("Topology labels", [{ text: "label" }, { text: "value" }], Object.entries(page.labels), true),
          ]
        : null,
    ];
  }

  function resourceTable(row) {
    return table(
      "Resources",
      [{ text: "resource" }, { text: "in use" }, { text: "free", number: true }, { text: "used by" }],
      app.shown.resources
        .filter(({ name: one }) => row.allocatable[one])
        .map(({ name: one, unit }) => {
          const sums = usageFields(usageOf(row, one)),
            used = sums.core + sums.extra + sums.foreign + sums.terminating,
            parts = partsOf(row, one);
          return [
            one,
            meter(used, sums.capacity, `${amount(used, unit)} of ${amount(sums.capacity, unit)}`),
            amount(sums.free, unit),
            element(
              "ul",
              { class: "inline" },
              parts.map(([gang, state, value]) =>
                element(
                  "li",
                  {},
                  swatch(state, gang),
                  " ",
                  gang ? link(gangAddress(gang), gang) : "outside gangs",
                  ` ${amount(value, unit)} ${state}`,
                ),
              ),
            ),
          ];
        }),
      true,
    );
  }

  load();
  return {
    title: name,
    node,
    opened: show,
    update: loadSoon,
    close: () => {
      isClosed = true;
      loadSoon.stop();
    },
    change: (detail) => {
      if (detail.isWhole || detail.nodes.has(name)) {
        show();
        loadSoon();
      }
    },
  };
}

const mapPath = (path, name) => (path === name || path.endsWith(`/${name}`) ? path : `${path}/${name}`);
