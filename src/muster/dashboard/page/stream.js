// Server-sent events by fetch(), because EventSource cannot send a token. Resumes where it was cut.
import { request, Refusal } from "./api.js";

const LONGEST_SILENCE = 15_000; // three beats
const FIRST_BACKOFF = 500,
  LONGEST_BACKOFF = 5_000;

// Feeds text in pieces; calls onEvent(name, data, id) for each whole event.
export function eventParser(onEvent) {
  let rest = "",
    name = "",
    data = [],
    id = "";
  const take = (line) => {
    if (line === "") {
      if (data.length) onEvent(name || "message", data.join("\n"), id);
      name = "";
      data = [];
      return;
    }
    const colon = line.indexOf(":");
    const key = colon < 0 ? line : line.slice(0, colon),
      value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (key === "event") name = value;
    else if (key === "data") data.push(value);
    else if (key === "id") id = value;
  };
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    lines.forEach(take);
  };
}

// handlers: onState(state), onChange(change), onLive(), onLost(why, since, next), onRefused(refusal)
export class Stream {
  constructor(handlers) {
    this.handlers = handlers;
    this.after = "";
    this.lostSince = 0;
    this.attempts = 0;
    this.bytes = 0;
    this.isStopped = true;
  }

  start() {
    this.isStopped = false;
    this.attempts = 0;
    this.connect();
  }

  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  // Without waiting for the backoff: the network or the person is back.
  hurry() {
    if (this.isStopped || !this.lostSince || this.isConnecting) return;
    clearTimeout(this.timer);
    this.connect();
  }

  async connect() {
    this.isConnecting = true; // until its first event: only then it is live
    this.abort?.abort(); // one stream at a time
    this.abort = new AbortController();
    try {
      const response = await request(`/api/stream${this.after ? `?after=${encodeURIComponent(this.after)}` : ""}`, {
        signal: this.abort.signal,
      });
      await this.follow(response);
      this.lose("the server ended the stream");
    } catch (why) {
      if (this.isStopped) return;
      if (why instanceof Refusal && (why.status === 401 || why.status === 403)) {
        this.isStopped = true;
        this.handlers.onRefused(why);
      } else this.lose(why instanceof Refusal ? why.message : "no connection");
    }
  }

  async follow(response) {
    const reader = response.body.getReader(),
      decoder = new TextDecoder();
    const parse = eventParser((name, data, id) => this.take(name, data, id));
    const silence = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.abort.abort(), LONGEST_SILENCE);
    };
    for (silence(); ;) {
      const { value, done } = await reader.read();
      if (done) return;
      silence();
      this.bytes += value.byteLength;
      parse(decoder.decode(value, { stream: true }));
    }
  }

  take(name, data, id) {
    const body = JSON.parse(data);
    this.isConnecting = false;
    if (name === "state") this.handlers.onState(body);
    else if (name === "change") this.handlers.onChange(body);
    if (id) this.after = id;
    if (this.lostSince || this.attempts || name === "state") this.handlers.onLive();
    this.lostSince = this.attempts = 0;
  }

  lose(why) {
    clearTimeout(this.timer);
    this.isConnecting = false;
    if (this.isStopped) return;
    this.lostSince ||= Date.now();
    this.attempts += 1;
    const backoff = Math.min(FIRST_BACKOFF * 2 ** (this.attempts - 1), LONGEST_BACKOFF) * (0.75 + Math.random() / 2);
    this.handlers.onLost(why, this.lostSince, Date.now() + backoff);
    this.timer = setTimeout(() => this.connect(), backoff);
  }
}
