// Numbers, amounts and times in words. Nothing here touches the page.
const LARGEST = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const MINUTE = 60,
  HOUR = 3600,
  DAY = 86400;
const BYTES = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return LARGEST.format(value);
  return String(Number(value.toPrecision(3)));
}

export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value !== 0 && Math.abs(value) < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

// An amount of a resource, which comes in its smallest unit.
export function amount(value, unit) {
  if (unit === "milli") return number(value / 1000);
  if (unit !== "bytes") return number(value);
  let step = 0,
    rest = value;
  while (Math.abs(rest) >= 1024 && step < BYTES.length - 1) {
    rest /= 1024;
    step += 1;
  }
  return `${number(rest)}${BYTES[step] ? ` ${BYTES[step]}` : ""}`;
}

// A quantity as Kubernetes writes it, as a number: `500m`, `64Gi`, `8`; null where there is none (`unlimited`).
const SUFFIXES = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 1024,
  Mi: 1024 ** 2,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
  Pi: 1024 ** 5,
  Ei: 1024 ** 6,
};
export function quantity(text) {
  const parts = /^(-?[\d.]+(?:e[+-]?\d+)?)([A-Za-z]*)$/.exec(String(text));
  if (!parts || (parts[2] && !(parts[2] in SUFFIXES))) return null;
  return Number(parts[1]) * (parts[2] ? SUFFIXES[parts[2]] : 1);
}

export const shortQuantity = (text) => {
  const value = quantity(text);
  return value === null ? String(text) : /i$/.test(text) || value >= 2 ** 31 ? amount(value, "bytes") : number(value);
};

// Two units at most: `2 d 4 h`, `3 min 20 s`.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 10) return `${Math.max(0, Math.round(seconds))} s`;
  const units = [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "min"],
    [1, "s"],
  ];
  for (let i = 0; i < units.length - 1; i += 1) {
    const [size, name] = units[i],
      [smaller, smallerName] = units[i + 1];
    const whole = Math.round(seconds / smaller) * smaller;
    if (whole < size) continue;
    const many = Math.floor(whole / size),
      rest = Math.round((whole - many * size) / smaller);
    return rest ? `${many} ${name} ${rest} ${smallerName}` : `${many} ${name}`;
  }
  return `${Math.round(seconds)} s`;
}

export const milliseconds = (value) =>
  value < 10 ? `${Number(value.toFixed(1))} ms` : value < 10_000 ? `${number(Math.round(value))} ms` : duration(value / 1000);
const two = (value) => String(value).padStart(2, "0");
const dateOf = (text) => new Date(text);

// The time of day, as the reader's clock shows it.
export function clock(text) {
  const date = dateOf(text);
  return Number.isNaN(date.getTime()) ? "–" : `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// With the day where it is not today.
export function moment(text) {
  const date = dateOf(text),
    now = new Date();
  if (Number.isNaN(date.getTime())) return "–";
  if (date.toDateString() === now.toDateString()) return clock(text);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(text)}`;
}

export function age(text, now = Date.now()) {
  const seconds = (now - dateOf(text).getTime()) / 1000;
  return Number.isFinite(seconds) ? duration(Math.max(0, seconds)).split(" ").slice(0, 2).join(" ") : "–";
}

// Names that controllers make hold a uid, of which the first digits are enough: `pg-llm-b3f9…-group-0`.
const UID = /([0-9a-f]{4})[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
export const readable = (name) => name.replace(UID, "$1…");

// `node-2` before `node-10`.
const COLLATOR = new Intl.Collator("en", { numeric: true });
export const byName = (a, b) => COLLATOR.compare(a, b);
// The last part of a label or of a resource: `topology/rack` is a rack.
export const shortName = (label) => label.slice(label.lastIndexOf("/") + 1);
