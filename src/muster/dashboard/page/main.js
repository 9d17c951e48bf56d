// The shell: views by address, the connection, the token, and time.
import { address, parseAddress } from "./router.js";
import { app } from "./app.js";
import { read, Refusal, setToken } from "./api.js";
import { element, field, isolated, sentence, speak } from "./elements.js";
import { clock } from "./format.js";
import { chooseColors, forgetColor } from "./palette.js";
import { Stream } from "./stream.js";
import { Timeline } from "./timeline.js";
import { mapView } from "./map.js";
import { gangsView } from "./gangs.js";
import { gangView } from "./gang.js";
import { nodeView } from "./node.js";
import { queuesView } from "./queues.js";
import { whatIfView } from "./what_if.js";
import { decisionsView } from "./decisions.js";

const VIEWS = [
  ["map", "Map"],
  ["gangs", "Gangs"],
  ["queues", "Queues"],
  ["what-if", "What if"],
  ["decisions", "Decisions"],
];
const MAKERS = new Map([
  ["map", mapView],
  ["gangs", gangsView],
  ["queues", queuesView],
  ["what-if", whatIfView],
  ["decisions", decisionsView],
  ["nodes", nodeView],
]);
const main = document.getElementById("main"),
  connection = document.getElementById("connection"),
  banner = document.getElementById("banner");
const MOST_PENDING = 1000;
let view = null,
  shownKey = "",
  pending = null,
  lost = null;

// views -------------------------------------------------------------------------------------------------------------

function render() {
  const route = parseAddress(location.hash);
  if (!app.session) return;
  timeline.show(route.params.get("cycle"));
  const key = [route.view, ...route.parts].join("/");
  if (key === shownKey && view) view.update(route);
  else open(route, key);
  for (const one of document.querySelectorAll("#views a")) one.href = address(one.dataset.view); // at the cycle that is shown
}

function open(route, key) {
  view?.close?.();
  shownKey = key;
  const make = route.view === "gangs" && route.parts.length === 2 ? gangView : MAKERS.get(route.view) || nothingHere;
  view = make(route);
  document.title = `${view.title} · muster`;
  main.replaceChildren(view.node);
  main.dataset.view = route.view;
  view.opened?.();
  for (const one of document.querySelectorAll("#views a")) {
    const isHere = one.dataset.view === (route.view === "nodes" ? "map" : route.view);
    if (isHere) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
}

function nothingHere(route) {
  return {
    title: "Not here",
    update() {},
    change() {},
    node: element(
      "section",
      { class: "page" },
      element("h1", {}, "There is no such view"),
      element("p", {}, "No view has the address ", element("code", {}, isolated(`#/${route.view}`)), ". The views are named above."),
    ),
  };
}

// Changes of one frame reach the view together.
function collect(detail) {
  if (pending) {
    pending.isWhole ||= detail.isWhole;
    pending.hasQueues ||= detail.hasQueues;
    detail.nodes.forEach((key) => pending.nodes.add(key));
    detail.gangs.forEach((key) => pending.gangs.add(key));
    pending.cycles = [...pending.cycles, ...detail.cycles].slice(-MOST_PENDING); // a hidden tab draws no frames
    return;
  }
  pending = { ...detail, nodes: new Set(detail.nodes), gangs: new Set(detail.gangs), cycles: [...detail.cycles] };
  requestAnimationFrame(deliver);
}

function deliver() {
  const detail = pending;
  pending = null;
  timeline.change();
  if (view) view.change(detail);
  else render();
}

function showStore(store) {
  if (app.shown === store) return;
  app.shown = store;
  document.documentElement.dataset.time = app.isLive() ? "live" : "past";
  collect({ isWhole: true, hasQueues: true, nodes: [], gangs: [], cycles: [] });
}

// connection --------------------------------------------------------------------------------------------------------

function showConnection() {
  const words = lost
    ? `reconnecting since ${clock(lost.since)}`
    : app.live.isKnown
      ? app.live.leads
        ? "live"
        : "live, standby"
      : "connecting";
  connection.dataset.state = lost ? "lost" : app.live.isKnown ? "live" : "connecting";
  const { namespaces, user } = app.session || {};
  connection.title = [
    user && `You are ${user}.`,
    namespaces && `You see the gangs of ${namespaces.join(", ")}.`,
    !app.live.leads && "This replica does not lead: it shows the cluster and decides nothing.",
  ]
    .filter(Boolean)
    .join(" ");
  const label = lost || !app.live.isKnown ? words : `${words} · cycle ${app.live.cycle} · ${clock(app.live.at)}`;
  if (connection.lastElementChild.textContent !== label) connection.lastElementChild.textContent = label;
}

// The sentence is announced once; the seconds are only for the eye. The button stays the same while it may be pressed.
const lostWords = element("span", {}),
  lostSeconds = element("span", { class: "soft", "aria-hidden": "true" });
banner.append(lostWords, lostSeconds, element("button", { type: "button", onclick: () => stream.hurry() }, "Try now"));

function showBanner() {
  banner.hidden = !lost;
  if (!lost) return;
  const seconds = Math.ceil((lost.next - Date.now()) / 1000);
  const words = `The connection is lost since ${clock(lost.since)} (${lost.why}). What you see is the last that arrived.`;
  if (lostWords.textContent !== words) lostWords.textContent = words;
  lostSeconds.textContent = seconds > 0 ? `Next attempt in ${seconds} s.` : "Trying now.";
}

const stream = new Stream({
  onState(state) {
    chooseColors(Object.keys(state.gangs));
    app.live.take(state);
  },
  onChange(change) {
    for (const [key, row] of Object.entries(change.gangs || {})) if (row === null) forgetColor(key);
    app.live.apply(change);
  },
  onLive() {
    if (lost) speak("Connected again. The page is live.");
    lost = null;
    showConnection();
    showBanner();
  },
  onLost(why, since, next) {
    if (!lost) speak(`Connection lost: ${why}. Reconnecting.`);
    lost = { why, since, next };
    showConnection();
    showBanner();
  },
  onRefused: (refusal) => askForToken(refusal),
});
setInterval(() => {
  if (lost) showBanner();
}, 1000);
addEventListener("online", () => stream.hurry());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) stream.hurry();
});

function askForToken(refusal) {
  stream.stop();
  stream.after = ""; // other rights are another state
  view?.close?.();
  view = null;
  app.session = null;
  connection.dataset.state = "refused";
  connection.lastElementChild.textContent = refusal.status === 401 ? "not signed in" : "no access";
  const token = element("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const form = element(
    "form",
    { class: "token page" },
    element("h1", {}, refusal.status === 401 ? "Sign in" : "No access"),
    element("p", {}, sentence(refusal.message)),
    refusal.hint ? element("p", { class: "lead" }, sentence(refusal.hint)) : null,
    element(
      "p",
      { class: "lead" },
      "The dashboard shows what your Kubernetes account may list. A token comes from ",
      element("code", {}, "kubectl create token NAME"),
      " or from your login. It stays in this tab and is forgotten when the tab is closed.",
    ),
    field("Bearer token", token),
    element("button", { type: "submit", class: "primary" }, "Sign in"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(token.value.trim());
    begin();
  });
  main.replaceChildren(form);
  token.focus();
}

async function begin() {
  try {
    app.session = await read("/api/session");
  } catch (why) {
    if (why instanceof Refusal && (why.status === 401 || why.status === 403)) {
      askForToken(why);
      return;
    }
    lost ||= { why: why instanceof Refusal ? why.message : "no connection", since: Date.now(), next: 0 };
    lost.next = Date.now() + 2000;
    showConnection();
    showBanner();
    setTimeout(begin, 2000);
    return;
  }
  lost = null;
  shownKey = "";
  showBanner();
  main.replaceChildren(element("p", { class: "loading" }, "Reading the cluster …"));
  stream.start();
}

// start -------------------------------------------------------------------------------------------------------------

const timeline = new Timeline(document.getElementById("timeline"), showStore);
document.getElementById("views").append(...VIEWS.map(([name, text]) => element("a", { href: `#/${name}`, "data-view": name }, text)));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
for (const store of [app.live, app.past])
  store.addEventListener("change", (event) => {
    if (store === app.live) {
      showConnection();
      timeline.change();
    }
    if (store === app.shown && store.isKnown) collect(event.detail);
  });
addEventListener("hashchange", render);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(input|select|textarea)$/i.test(event.target.tagName)) return;
  const search = main.querySelector("input[type=search]");
  event.preventDefault();
  if (search) search.focus();
  else location.hash = address("gangs");
});
document.documentElement.dataset.time = "live";
Object.defineProperty(window, "musterStream", { value: stream }); // bytes received, for measurements
begin();
