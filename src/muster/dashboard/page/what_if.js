// What if: changes that are planned and never made. The answer is the same as that of `muster plan` with --drain, --set and --without.
import { setParams } from "./router.js";
import { app } from "./app.js";
import { ask, Refusal } from "./api.js";
import { choice, element, field, sentence, speak } from "./elements.js";
import { byName, plural } from "./format.js";
import { showAnswer } from "./what_if_answer.js";

const MOST_OPTIONS = 400;
const QUEUE_RESOURCES = [
  ["gpu", "GPUs"],
  ["cpu", "CPU (millicores)"],
  ["memory", "memory (MB)"],
]; // as a Queue names them
const KINDS = [
  ["drain", "drain a node"],
  ["drainDomain", "drain a domain"],
  ["without", "remove a gang"],
  ["minimum", "change a minimum"],
  ["priority", "change a priority"],
  ["quota", "change a quota or limit"],
  ["addNodes", "add nodes"],
];

export function whatIfView(route) {
  return new WhatIfView(route);
}

class WhatIfView {
  constructor(route) {
    this.title = "What if";
    this.route = route;
    this.kind = choice(KINDS, "drain", () => this.showFields());
    this.fields = element("div", { class: "fields" });
    this.form = element(
      "form",
      { class: "tools", "aria-label": "Add a change" },
      field("Suppose you", this.kind),
      this.fields,
      element("button", { type: "submit" }, "Add"),
    );
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
    this.chosen = element("ul", { class: "chips", "aria-label": "Changes" });
    this.run = element("button", { type: "button", class: "primary", onclick: () => this.start() }, "Plan it");
    this.reset = element("button", { type: "button", onclick: () => this.clear() }, "Start over");
    this.result = element("div", { class: "result" });
    this.node = element(
      "section",
      { class: "page wide-page", "aria-labelledby": "what-if-title" },
      element("h1", { id: "what-if-title" }, "What if"),
      element(
        "p",
        { class: "lead" },
        "Plans the cluster twice, as it is and with your changes, and compares. Nothing in the cluster changes: the dashboard can only read.",
      ),
      this.form,
      this.chosen,
      element("p", { class: "actions" }, this.run, this.reset),
      this.result,
    );
    this.showFields();
  }

  opened() {
    this.update(this.route);
    if (this.route.params.get("run") && this.changes().length) this.start();
  }

  close() {
    this.abort?.abort();
  }

  change() {
    /* a form stays as it is while the cluster changes */
  }

  update(route) {
    this.route = route;
    const changes = this.changes();
    this.chosen.replaceChildren(
      ...changes.map(([name, value, words]) =>
        element(
          "li",
          { class: "chip" },
          sentence(words),
          element(
            "button",
            {
              type: "button",
              class: "plain",
              "aria-label": `Remove: ${words.replaceAll("`", "")}`,
              onclick: () => this.remove(name, value),
            },
            "×",
          ),
        ),
      ),
    );
    if (!changes.length)
      this.chosen.replaceChildren(element("li", { class: "empty" }, "No change yet. Add one or more, then plan them together."));
    this.run.disabled = !changes.length;
    this.reset.disabled = !changes.length;
  }

  // Every change in the address: [parameter, value, words].
  changes() {
    const { params } = this.route,
      all = (name) => params.getAll(name);
    return [
      ...all("drain").map((value) => ["drain", value, `drain node \`${value}\``]),
      ...all("drainDomain").map((value) => [
        "drainDomain",
        value,
        `drain \`${value.slice(value.indexOf(":") + 1)}\` of \`${value.slice(0, value.indexOf(":"))}\``,
      ]),
      ...all("without").map((value) => ["without", value, `remove gang \`${value}\``]),
      ...all("set").map((value) => ["set", value, `set \`${value}\``]),
      ...all("add").map((value) => [
        "add",
        value,
        `add ${plural(Number(value.split(":")[0]), "node")} like \`${value.slice(value.indexOf(":") + 1)}\``,
      ]),
    ];
  }

  remove(name, value) {
    setParams({ [name]: this.route.params.getAll(name).filter((one) => one !== value), run: "" });
  }

  clear() {
    setParams({ drain: "", drainDomain: "", without: "", set: "", add: "", run: "" });
    this.result.replaceChildren();
  }

  // the form ---------------------------------------------------------------------------------------------------------

  input(label, options, more = {}) {
    const control = element("input", { type: "text", required: true, autocomplete: "off", spellcheck: "false", ...more }),
      list = element("datalist", {});
    const wrapped = field(label, control);
    if (options) {
      list.id = `${control.id}-list`;
      control.setAttribute("list", list.id);
      const fillList = () =>
        list.replaceChildren(
          ...options()
            .filter((one) => one.includes(control.value))
            .slice(0, MOST_OPTIONS)
            .map((value) => element("option", { value })),
        );
      control.addEventListener("focus", fillList);
      control.addEventListener("input", fillList);
      wrapped.append(list);
    }
    return [wrapped, control];
  }

  showFields() {
    const nodes = () => [...app.shown.nodes.keys()].sort(byName),
      gangs = () => [...app.shown.gangs.keys()].sort(byName),
      queues = () => app.shown.queues.queues.map((queue) => queue.name);
    const topologies = Object.keys(app.shown.topologies),
      number0 = { type: "number", min: 0, step: 1, class: "short" };
    const make = {
      drain: () => [this.input("Node", nodes)],
      drainDomain: () => {
        const which = choice(
          topologies.map((name) => [name, name]),
          topologies[0] || "",
          () => {},
        );
        return [[field("Topology", which), which], this.input("Domain", () => this.domains(which.value))];
      },
      without: () => [this.input("Gang", gangs)],
      minimum: () => {
        const what = choice(
          [
            ["minMember", "pods (minMember)"],
            ["minSubGroup", "groups (minSubGroup)"],
          ],
          "minMember",
          () => {},
        );
        return [
          this.input("Gang", gangs),
          this.input("SubGroup (empty: the gang)", null, { required: false }),
          [field("Counts", what), what],
          this.input("Minimum", null, number0),
        ];
      },
      priority: () => [this.input("Gang", gangs), this.input("PriorityClass", null)],
      quota: () => {
        const what = choice(
          [
            ["quota", "quota"],
            ["limit", "limit"],
          ],
          "quota",
          () => {},
        );
        const resource = choice(QUEUE_RESOURCES, "gpu", () => {});
        return [
          this.input("Queue", queues),
          [field("Resource", resource), resource],
          [field("Field", what), what],
          this.input("Value", null, { class: "short" }),
        ];
      },
      addNodes: () => [
        this.input("Like node", nodes),
        this.input("How many", null, { type: "number", min: 1, max: 1000, step: 1, value: 1, class: "short" }),
      ],
    }[this.kind.value]();
    this.controls = make.map(([, control]) => control);
    this.fields.replaceChildren(...make.map(([node]) => node));
  }

  domains(topology) {
    const paths = new Set();
    for (const row of app.shown.nodes.values()) {
      const parts = (row.domains[topology] || "").split("/").filter(Boolean);
      parts.forEach((_, i) => paths.add(parts.slice(0, i + 1).join("/")));
    }
    return [...paths].sort(byName);
  }

  add() {
    const [a, b, c, d] = this.controls.map((control) => control.value.trim());
    const more = {
      drain: ["drain", a],
      drainDomain: ["drainDomain", `${a}:${b}`],
      without: ["without", a],
      minimum: ["set", `${a}.${b ? `subGroups.${b}.` : ""}${c}=${d}`],
      priority: ["set", `${a}.priorityClassName=${b}`],
      quota: ["set", `queue/${a}.${b}.${c}=${d}`],
      addNodes: ["add", `${b}:${a}`],
    }[this.kind.value];
    const [name, value] = more;
    setParams({ [name]: name === "add" ? [value] : [...new Set([...this.route.params.getAll(name), value])], run: "" });
    for (const control of this.controls) if (control.type === "text") control.value = "";
    this.controls[0].focus();
    speak("Change added.");
  }

  // the answer -------------------------------------------------------------------------------------------------------

  body() {
    const { params } = this.route,
      body = { drain: params.getAll("drain"), without: params.getAll("without"), set: {}, drainDomains: [] };
    for (const text of params.getAll("set")) body.set[text.slice(0, text.lastIndexOf("="))] = text.slice(text.lastIndexOf("=") + 1);
    for (const text of params.getAll("drainDomain")) {
      const colon = text.indexOf(":"),
        topology = text.slice(0, colon),
        path = text.slice(colon + 1);
      body.drainDomains.push({ topology, level: (app.live.topologies[topology] || [])[path.split("/").length - 1] || "", path });
    }
    const added = params.get("add");
    if (added) body.addNodes = { count: Number(added.split(":")[0]), like: added.slice(added.indexOf(":") + 1) };
    return body;
  }

  async start() {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    setParams({ run: "1", cycle: "" });
    this.run.disabled = true;
    this.result.replaceChildren(element("p", { class: "loading", role: "status" }, "Planning twice …"));
    try {
      const answer = await ask("/api/what-if", this.body(), abort.signal);
      this.result.replaceChildren(...showAnswer(answer).flat(Infinity).filter(Boolean));
      speak(`Planned. ${plural(answer.differences.podGroups.length, "gang")} would differ.`);
    } catch (why) {
      if (abort.signal.aborted) return;
      this.result.replaceChildren(
        element(
          "div",
          { class: "note", role: "alert" },
          element("p", {}, sentence(why instanceof Refusal ? why.message : "No answer: the connection is lost.")),
          why.hint ? element("p", {}, sentence(why.hint)) : null,
        ),
      );
    }
    this.run.disabled = false;
  }
}
