// Numbers, times and ticks in words. Nothing here touches the page.
"use strict";

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR,
  3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 56 * DAY, 112 * DAY, 364 * DAY];
const WAIT_TICKS = [[0, "0"], [1, "1 s"], [10, "10 s"], [MINUTE, "1 min"], [10 * MINUTE, "10 min"], [HOUR, "1 h"], [6 * HOUR, "6 h"],
  [DAY, "1 d"], [7 * DAY, "7 d"], [30 * DAY, "30 d"], [365 * DAY, "1 y"]];
const LARGEST = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return LARGEST.format(value);
  return String(Number(value.toPrecision(3)));
}

function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value !== 0 && Math.abs(value) < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

// Two units at most: `2 d 4 h`, `3 min 20 s`.
function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 10) return `${Number(seconds.toFixed(seconds < 1 ? 2 : 1))} s`;
  const units = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [1, "s"]];
  for (let i = 0; i < units.length; i += 1) {
    const [size, name] = units[i];
    const [smaller, smallerName] = units[i + 1] || [size, ""];
    const whole = Math.round(seconds / smaller) * smaller;
    if (whole < size) continue;
    const many = Math.floor(whole / size), rest = Math.round((whole - many * size) / smaller);
    return rest && smaller !== size ? `${many} ${name} ${rest} ${smallerName}` : `${many} ${name}`;
  }
  return `${Math.round(seconds)} s`;
}

function signedDuration(seconds) {
  return seconds > 0 ? `+${duration(seconds)}` : duration(seconds);
}

function figureText(amount, unit) {
  if (amount === null || amount === undefined) return "–";
  if (unit === "share") return percent(amount);
  if (unit === "seconds") return duration(amount);
  if (unit === "gpu_seconds") return `${number(amount / HOUR)} GPU h`;
  return number(amount);
}

function plural(count, word) {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

const clock = (seconds) => {
  const minutes = Math.floor(seconds / MINUTE) % 1440;
  return `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
};
// Written out here, because browsers differ in the punctuation of dates.
const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

function day(seconds) {
  const date = new Date(seconds * 1000);
  return `${WEEKDAYS[date.getUTCDay()].slice(0, 3)} ${date.getUTCDate()} ${MONTHS[date.getUTCMonth()].slice(0, 3)}`;
}

function longDay(seconds) {
  const date = new Date(seconds * 1000);
  return `${WEEKDAYS[date.getUTCDay()]} ${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}

// A moment as people say it: `Tuesday 3 March 2026, 14:05 UTC, day 2`.
function moment(seconds, begins) {
  const ordinal = Math.floor(seconds / DAY) + 1;
  if (begins === null) return `day ${ordinal}, ${clock(seconds)} after its start`;
  return `${longDay(begins + seconds)}, ${clock(begins + seconds)} UTC, day ${ordinal}`;
}

function shortMoment(seconds, begins) {
  if (begins === null) return `day ${Math.floor(seconds / DAY) + 1}, ${clock(seconds)}`;
  return `${day(begins + seconds)}, ${clock(begins + seconds)}`;
}

// Round values from 0 up to the first that is not below the largest.
function roundTicks(largest, most, wholeOnly) {
  const rough = Math.max(largest, wholeOnly ? 1 : 1e-9) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999 && !(wholeOnly && (factor * power) % 1)) * power;
  if (!Number.isFinite(step)) step = 1;
  if (wholeOnly) step = Math.max(1, step);
  const ticks = [];
  for (let i = 0; ; i += 1) {
    ticks.push(Number((i * step).toPrecision(12)));
    if (i * step >= largest * 0.9999) return ticks.length > 1 ? ticks : [0, step];
  }
}

function timeTicks(horizon, begins, most) {
  const step = TIME_STEPS.find((size) => horizon / size <= most) || Math.ceil(horizon / most / DAY) * DAY;
  const origin = begins === null ? 0 : begins;
  const ticks = [];
  for (let at = Math.ceil(origin / step) * step - origin; at <= horizon + 1e-6; at += step) ticks.push([at, tickLabel(at, origin, begins, step)]);
  return ticks;
}

function tickLabel(at, origin, begins, step) {
  if (begins === null) return at < DAY || step < HOUR ? duration(at) : step % DAY === 0 ? `${at / DAY} d` : duration(at);
  const isMidnight = (origin + at) % DAY === 0;
  return step >= DAY || isMidnight ? day(origin + at) : clock(origin + at);
}

// Waits span seconds to weeks, and many are 0: a logarithm that begins at 0.
const waitScale = (seconds) => Math.log10(1 + Math.max(seconds, 0) / 5);

// Round waits that are at least a share of the axis apart.
function waitTicks(longest, gap) {
  const ticks = [WAIT_TICKS[0]], whole = waitScale(longest) || 1;
  for (const tick of WAIT_TICKS) {
    const before = waitScale(ticks[ticks.length - 1][0]);
    if (tick[0] <= longest && (waitScale(tick[0]) - before) / whole >= gap) ticks.push(tick);
  }
  return ticks;
}
