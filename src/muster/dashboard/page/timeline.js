// Time travel: the last thousand cycles, one step or one slide away. While it is past, the live rows go on arriving unseen.
import { setParams } from "./router.js";
import { app, throttled } from "./app.js";
import { read, Refusal } from "./api.js";
import { element, sentence, speak } from "./elements.js";
import { age, clock, number } from "./format.js";

const KEPT = 1000;

export class Timeline {
  constructor(node, showStore) {
    this.showStore = showStore;
    this.oldest = 1;
    this.cycle = null; // null: live
    this.wish = null; // where the slider was moved; its own value cannot be older than the oldest cycle
    this.slider = element("input", { type: "range", min: 1, max: 1, value: 1, step: 1, "aria-label": "Cycle that is shown" });
    this.words = element("output", {});
    this.back = element(
      "button",
      { type: "button", "aria-label": "One cycle back", title: "One cycle back", onclick: () => this.step(-1) },
      "◂",
    );
    this.next = element(
      "button",
      { type: "button", "aria-label": "One cycle on", title: "One cycle on", onclick: () => this.step(1) },
      "▸",
    );
    this.live = element("button", { type: "button", class: "primary", onclick: () => this.go(null) }, "Back to live");
    this.note = element("p", { class: "note", role: "status", hidden: true });
    node.append(element("div", { class: "steps" }, this.back, this.slider, this.next), this.words, this.live, this.note);
    this.slider.addEventListener("input", () => {
      this.goSoon.stop();
      this.wish = Number(this.slider.value);
      this.goSoon();
      this.say();
    });
    this.goSoon = throttled(120, () => this.go(this.wish >= app.live.cycle ? null : this.wish));
    this.change();
  }

  change() {
    const { cycle } = app.live;
    this.oldest = Math.max(this.oldest, cycle - KEPT + 1, 1);
    if (cycle < this.oldest) this.oldest = Math.max(1, cycle - KEPT + 1); // another process
    this.slider.min = this.oldest;
    this.slider.max = Math.max(cycle, this.oldest);
    if (this.cycle === null) this.slider.value = cycle;
    this.say();
  }

  say() {
    const isLive = this.cycle === null,
      shown = isLive ? app.live : app.past;
    const isMoving = !isLive && this.wish !== shown.cycle;
    const words = isLive
      ? `now: cycle ${number(shown.cycle)}`
      : isMoving
        ? `cycle ${number(this.wish)}`
        : `cycle ${number(shown.cycle)} at ${clock(shown.at)}, ${age(shown.at)} ago`;
    if (this.words.textContent !== words) this.words.textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
    this.live.hidden = isLive;
    this.next.disabled = isLive;
    this.back.disabled = (isLive ? app.live.cycle : this.cycle) <= this.oldest;
  }

  step(by) {
    const from = this.cycle ?? app.live.cycle,
      to = from + by;
    this.go(to >= app.live.cycle ? null : Math.max(to, this.oldest));
  }

  go(cycle) {
    setParams({ cycle: cycle === null ? "" : String(cycle) });
  }

  // The address names a cycle, or none.
  show(text) {
    const cycle = text && /^\d+$/.test(text) ? Number(text) : null;
    if (cycle === this.cycle) return;
    const wasPast = this.cycle !== null;
    this.cycle = this.wish = cycle;
    this.note.hidden = true;
    if (cycle === null) {
      this.showStore(app.live);
      if (wasPast) speak("Back to live.");
      this.change();
      return;
    }
    this.slider.value = cycle;
    this.load(cycle);
  }

  async load(cycle) {
    try {
      const state = await read(`/api/state?cycle=${cycle}`);
      if (this.cycle !== cycle) return;
      app.past.take(state);
      this.showStore(app.past);
      speak(`Cycle ${cycle}, as it was at ${clock(state.at)}.`);
      this.say();
    } catch (why) {
      if (this.cycle !== cycle) return;
      if (why instanceof Refusal && why.body.oldest) this.oldest = why.body.oldest;
      this.note.replaceChildren(...sentence(why instanceof Refusal ? why.message : "The cycle could not be read: no connection."));
      this.note.hidden = false;
      this.say();
    }
  }
}
