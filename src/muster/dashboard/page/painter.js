// Draws tiles on a canvas: everything, or one tile that changed. What is too small is drawn as part of what is around it.
import { colorOf } from "./palette.js";
import { amount } from "./format.js";
import { NODE_HEIGHT, NODE_WIDTH } from "./layout.js";
import { partsOf } from "./usage.js";

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif';
const MOST_CELLS = 32; // devices that are drawn one by one

// scene: {root, nodes, resource: {name, unit}, theme, gang (selected or ""), gangDomains: Set of tiles}; camera: {x, y, k}
export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.ratio = 1;
    this.fonts = "";
  }

  resize(width, height, ratio) {
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
  }

  // The rectangle of a tile on the screen, on whole pixels so that edges are sharp and redrawing covers the same.
  box(tile, camera) {
    const r = this.ratio,
      k = camera.k;
    const x = Math.round((tile.x - camera.x) * k * r),
      y = Math.round((tile.y - camera.y) * k * r);
    return {
      x,
      y,
      w: Math.max(1, Math.round((tile.x + tile.w - camera.x) * k * r) - x),
      h: Math.max(1, Math.round((tile.y + tile.h - camera.y) * k * r) - y),
    };
  }

  // Whether the children of a domain are drawn, or the domain as one bar.
  isOpen(tile, camera) {
    if (tile.isNode || !tile.children.length) return false;
    if (!tile.parent) return true;
    const child = tile.children[0];
    return child.isNode
      ? NODE_WIDTH * camera.k >= 4.5 && NODE_HEIGHT * camera.k >= 3.5
      : child.w * camera.k >= 9 && child.h * camera.k >= 6;
  }

  drawAll(scene, camera) {
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = scene.theme.paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.drawn = 0;
    this.drawTile(scene.root, scene, camera);
  }

  // The smallest tile around a node that is drawn at this scale.
  shownTile(tile, camera) {
    const around = [];
    for (let above = tile.parent; above; above = above.parent) around.push(above);
    for (const domain of around.reverse()) if (!this.isOpen(domain, camera)) return domain;
    return tile;
  }

  // Draws tiles again whose nodes changed, and the headers around them.
  drawChanged(tiles, scene, camera) {
    const shown = new Set(),
      headers = new Set();
    for (const tile of tiles) {
      const visible = this.shownTile(tile, camera);
      if (shown.has(visible)) continue;
      shown.add(visible);
      for (let above = visible.parent; above && above.depth; above = above.parent) headers.add(above);
    }
    for (const tile of shown) this.drawTile(tile, scene, camera);
    for (const domain of headers) this.drawHeader(domain, this.box(domain, camera), scene, camera);
    return shown.size;
  }

  drawTile(tile, scene, camera) {
    const box = this.box(tile, camera);
    if (box.x > this.canvas.width || box.y > this.canvas.height || box.x + box.w < 0 || box.y + box.h < 0) return;
    this.drawn += 1;
    if (tile.isNode) {
      this.drawNode(tile, box, scene);
      return;
    }
    if (!this.isOpen(tile, camera)) {
      this.drawBar(tile, box, scene);
      return;
    }
    if (tile.depth) {
      const { context } = this;
      context.fillStyle = scene.theme.levels[Math.min(tile.depth - 1, 2)];
      context.fillRect(box.x, box.y, box.w, box.h);
      this.drawHeader(tile, box, scene, camera);
    }
    for (const child of tile.children) this.drawTile(child, scene, camera);
    if (scene.gangDomains.has(tile)) this.outline(box, scene.theme.gangs[colorOf(scene.gang)], 2 * this.ratio);
  }

  drawHeader(tile, box, scene, camera) {
    const height = Math.round(tile.header * camera.k * this.ratio),
      line = scene.gangDomains.has(tile) ? 2 * this.ratio : 0;
    if (height < 8 * this.ratio) return;
    const { context, ratio } = this,
      size = Math.min(13 * ratio, Math.round(height * 0.78));
    context.fillStyle = scene.theme.levels[Math.min(tile.depth - 1, 2)];
    context.fillRect(box.x + line, box.y + line, box.w - 2 * line, height - line);
    // A header that is wider than the window stays in sight.
    const left = Math.max(box.x, 0) + Math.max(3 * ratio, tile.pad * camera.k * ratio * 0.9),
      right = Math.min(box.x + box.w, this.canvas.width) - Math.max(3 * ratio, tile.pad * camera.k * ratio * 0.9);
    if (right - left < 20 * ratio) return;
    const middle = box.y + height / 2 + ratio;
    const used = this.text(tile.name === "~" ? "in no domain" : tile.name, left, middle, right - left, size, scene.theme.ink, 600);
    const free = `${amount(tile.sums[2], scene.resource.unit)} of ${amount(tile.sums[1], scene.resource.unit)} free`;
    context.font = `400 ${size}px ${FONT}`;
    const width = context.measureText(free).width;
    if (used && width + used + 12 * ratio < right - left) this.text(free, right - width, middle, width + 2, size, scene.theme.soft, 400);
  }

  // Text that is cut where it is too long; its width, or 0 where nothing fits.
  text(words, x, y, most, size, color, weight) {
    const { context } = this;
    context.font = `${weight} ${size}px ${FONT}`;
    context.textBaseline = "middle";
    let shown = words,
      width = context.measureText(shown).width;
    if (width > most) {
      const keep = Math.floor((words.length * most) / width) - 1;
      if (keep < 2) return 0;
      shown = `${words.slice(0, keep)}…`;
      width = context.measureText(shown).width;
    }
    context.fillStyle = color;
    context.fillText(shown, x, y);
    return width;
  }

  outline(box, color, width) {
    const { context } = this;
    context.fillStyle = color;
    context.fillRect(box.x, box.y, box.w, width);
    context.fillRect(box.x, box.y + box.h - width, box.w, width);
    context.fillRect(box.x, box.y, width, box.h);
    context.fillRect(box.x + box.w - width, box.y, width, box.h);
  }

  // A domain that is too small to open: its states side by side.
  drawBar(tile, box, scene) {
    const { context } = this,
      { theme } = scene,
      [, capacity, , core, extra, foreign, terminating, , cordoned, lost] = tile.sums;
    context.fillStyle = theme.well;
    context.fillRect(box.x, box.y, box.w, box.h);
    let at = box.x;
    const part = (value, color) => {
      const to = Math.min(box.x + box.w, at + (capacity ? (value / capacity) * box.w : 0));
      if (to - at < 0.5) return;
      context.fillStyle = color;
      context.fillRect(Math.round(at), box.y, Math.max(1, Math.round(to) - Math.round(at)), box.h);
      at = to;
    };
    if (scene.gang) {
      part(scene.gangSums.get(tile) || 0, theme.gangs[colorOf(scene.gang)]);
      part(core + extra + foreign + terminating - (scene.gangSums.get(tile) || 0), theme.foreignDim);
    } else {
      part(core, theme.used);
      part(extra, theme.usedExtra);
      part(foreign + terminating, theme.foreign);
    }
    part(cordoned, theme.rule);
    part(lost, theme.lost);
    if (scene.gangDomains.has(tile)) this.outline(box, theme.gangs[colorOf(scene.gang)], this.ratio);
  }

  drawNode(tile, box, scene) {
    const row = scene.nodes.get(tile.name),
      { context } = this,
      { theme } = scene;
    context.fillStyle = theme.tile;
    context.fillRect(box.x, box.y, box.w, box.h);
    if (!row) return;
    const inside = this.inside(box),
      cells = this.cells(tile, row, inside, scene.resource);
    if (inside.top)
      this.text(
        tile.name,
        inside.x,
        box.y + inside.top / 2 + this.ratio,
        inside.w - this.flagWidth(row, inside),
        Math.min(12 * this.ratio, Math.round(inside.top * 0.72)),
        theme.ink,
        500,
      );
    if (cells) this.drawCells(cells, row, scene, scene.pods?.name === tile.name ? scene.pods.byPart : null);
    else this.drawStack(row, inside, scene);
    this.drawFlags(row, box, inside, scene);
    if (scene.gang && row.used.some(([gang]) => gang === scene.gang))
      this.outline(box, theme.gangs[colorOf(scene.gang)], Math.max(1, Math.round(this.ratio)));
  }

  // The part of a node's tile that holds its devices, below its name where there is place for one.
  inside(box) {
    const r = this.ratio;
    const top = box.w >= 56 * r && box.h >= 40 * r ? Math.round(Math.min(box.h * 0.22, 20 * r)) : 0;
    const pad = box.w < 14 * r ? 0 : box.w < 40 * r ? 1 : Math.round(Math.min(box.w * 0.05, 8 * r));
    return { x: box.x + pad, y: box.y + (top || pad), w: Math.max(1, box.w - 2 * pad), h: Math.max(1, box.h - (top || pad) - pad), top };
  }

  flagWidth(row, inside) {
    return row.flags.length && inside.top && inside.w >= 120 * this.ratio ? inside.w * 0.4 : 0; // else the outline says it
  }

  // A square for each device: [x, y, size, gang, state]; null where there are too many, or they would be too small.
  cells(tile, row, inside, resource) {
    const capacity = row.allocatable[resource.name] || 0;
    const parts = partsOf(row, resource.name),
      whole = Math.max(
        capacity,
        parts.reduce((sum, part) => sum + (part[1] === "nominated" ? 0 : part[2]), 0),
      );
    if (resource.unit || !whole || whole > MOST_CELLS || !Number.isInteger(whole)) return null;
    const columns = cellColumns(whole, inside.w / inside.h),
      rows = Math.ceil(whole / columns);
    const step = Math.min(inside.w / columns, inside.h / rows),
      size = Math.floor(step) - (step >= 8 ? Math.max(1, Math.round(step * 0.12)) : 1);
    if (size < 3) return null;
    const left = inside.x + Math.floor((inside.w - (columns * step - (step - size))) / 2),
      top = inside.y + Math.floor((inside.h - (rows * step - (step - size))) / 2);
    const devices = [];
    for (const [gang, state, value] of parts) for (let i = 0; i < value && devices.length < whole; i += 1) devices.push([gang, state]);
    while (devices.length < whole) devices.push(["", "free"]);
    return devices.map(([gang, state], i) => [
      left + Math.round((i % columns) * step),
      top + Math.round(Math.floor(i / columns) * step),
      size,
      gang,
      state,
    ]);
  }

  drawCells(cells, row, scene, pods) {
    const isLost = row.flags.includes("lost"),
      isCordoned = row.flags.includes("cordoned"),
      seen = new Map();
    for (const [x, y, size, gang, state] of cells) {
      this.drawDevice(x, y, size, size, gang, state === "free" ? (isLost ? "lost" : isCordoned ? "cordoned" : "free") : state, scene);
      if (size < 60 * this.ratio || state === "free") continue;
      const part = `${gang}|${state}`,
        index = seen.get(part) || 0;
      seen.set(part, index + 1);
      this.drawPodName(x, y, size, pods?.get(part)?.[index] || gang.slice(gang.indexOf("/") + 1) || "outside gangs", state, scene);
    }
  }

  // On a plate of its own, readable on every colour and pattern.
  drawPodName(x, y, size, name, state, scene) {
    const { context, ratio } = this,
      { theme } = scene,
      letters = 11 * ratio,
      height = Math.round(letters * 2.9);
    context.fillStyle = theme.tile;
    context.fillRect(x + 3 * ratio, y + size - height - 3 * ratio, size - 6 * ratio, height);
    // The end of a pod's name tells it from its siblings.
    context.font = `500 ${letters}px ${FONT}`;
    let shown = name;
    while (shown.length > 3 && context.measureText(`…${shown}`).width > size - 12 * ratio) shown = shown.slice(1);
    this.text(shown === name ? name : `…${shown}`, x + 6 * ratio, y + size - height + letters * 0.55, size, letters, theme.ink, 500);
    this.text(state, x + 6 * ratio, y + size - height + letters * 1.85, size - 12 * ratio, letters, theme.soft, 400);
  }

  // Solid: core. A ring: extra. A dot in grey: outside gangs. Stripes: terminating. An outline: nominated. A slash: lost or cordoned.
  drawDevice(x, y, w, h, gang, state, scene) {
    const { context } = this,
      { theme } = scene,
      isDim = scene.gang && gang !== scene.gang;
    const color = gang ? (isDim ? theme.dim : theme.gangs)[colorOf(gang)] : isDim ? theme.foreignDim : theme.foreign;
    const edge = Math.max(1, Math.round(Math.min(w, h) * 0.22)),
      isSmall = Math.min(w, h) < 5;
    const rect = (fill, a, b, c, d) => {
      context.fillStyle = fill;
      context.fillRect(a, b, c, d);
    };
    if (state === "core") rect(color, x, y, w, h);
    else if (state === "extra") {
      rect(color, x, y, w, h);
      if (isSmall) rect(theme.tile, x + 1, y + 1, w - 2, h - 2);
      else rect(gang && !isDim ? theme.light[colorOf(gang)] : theme.well, x + edge, y + edge, w - 2 * edge, h - 2 * edge);
    } else if (state === "foreign") {
      rect(isDim ? theme.foreignDim : theme.foreign, x, y, w, h);
      if (!isSmall) rect(theme.tile, x + (w >> 1) - (edge >> 1), y + (h >> 1) - (edge >> 1), edge, edge);
    } else if (state === "terminating") {
      rect(theme.well, x, y, w, h);
      for (let line = 0; line < h; line += 2 * edge) rect(color, x, y + line, w, Math.min(edge, h - line));
    } else {
      rect(theme.well, x, y, w, h);
      if (state === "nominated") this.outline({ x, y, w, h }, color, Math.max(1, Math.round(this.ratio * (w > 16 ? 2 : 1))));
      else if (state === "lost") this.cross(x, y, w, h, theme.lost, true);
      else if (state === "cordoned") this.cross(x, y, w, h, theme.soft, false);
    }
  }

  cross(x, y, w, h, color, isDouble) {
    const { context } = this;
    context.strokeStyle = color;
    context.lineWidth = Math.max(1, Math.min(w, h) * 0.09);
    context.beginPath();
    context.moveTo(x, y + h);
    context.lineTo(x + w, y);
    if (isDouble) {
      context.moveTo(x, y);
      context.lineTo(x + w, y + h);
    }
    context.stroke();
  }

  // Parts side by side, as wide as their amounts: for many or divisible devices, and for small tiles.
  drawStack(row, inside, scene) {
    const { context } = this,
      { theme } = scene,
      capacity = row.allocatable[scene.resource.name] || 0;
    if (!capacity) return; // it has none of this resource
    context.fillStyle = theme.well;
    context.fillRect(inside.x, inside.y, inside.w, inside.h);
    let at = 0;
    for (const [gang, state, value] of partsOf(row, scene.resource.name)) {
      const from = Math.round((at / capacity) * inside.w),
        to = Math.round((Math.min(capacity, at + value) / capacity) * inside.w);
      at += value;
      if (to <= from) continue;
      if (inside.w > 24 * this.ratio) this.drawDevice(inside.x + from, inside.y, to - from, inside.h, gang, state, scene);
      else {
        const isDim = scene.gang && gang !== scene.gang,
          tones = isDim ? theme.dim : state === "core" ? theme.gangs : theme.light;
        context.fillStyle = gang ? tones[colorOf(gang)] : isDim ? theme.foreignDim : theme.foreign;
        context.fillRect(inside.x + from, inside.y, to - from, inside.h);
      }
    }
  }

  drawFlags(row, box, inside, scene) {
    if (!row.flags.length) return;
    const { theme } = scene,
      isLost = row.flags.includes("lost"),
      color = isLost ? theme.lost : theme.soft;
    const width = Math.max(1, Math.round(this.ratio * (box.w > 40 * this.ratio ? 2 : 1)));
    if (isLost || row.flags.includes("cordoned")) {
      this.outline(box, color, width);
      if (!inside.top) this.cross(box.x, box.y, box.w, box.h, color, isLost);
    }
    if (!this.flagWidth(row, inside)) return;
    const words = row.flags.join(", "),
      size = Math.min(11 * this.ratio, Math.round(inside.top * 0.66));
    this.context.font = `600 ${size}px ${FONT}`;
    const most = this.flagWidth(row, inside),
      w = Math.min(most, this.context.measureText(words).width);
    this.text(words, inside.x + inside.w - w, box.y + inside.top / 2 + this.ratio, most, size, isLost ? theme.lost : theme.soft, 600);
  }

  // The part of a node under a point: [gang, state], or null.
  partAt(tile, scene, camera, px, py) {
    const row = scene.nodes.get(tile.name);
    if (!row) return null;
    const x = px * this.ratio,
      y = py * this.ratio,
      inside = this.inside(this.box(tile, camera)),
      cells = this.cells(tile, row, inside, scene.resource);
    if (cells) {
      const cell = cells.find(([left, top, size]) => x >= left && x <= left + size && y >= top && y <= top + size);
      return cell && cell[4] !== "free" ? [cell[3], cell[4]] : null;
    }
    let at = ((x - inside.x) / inside.w) * (row.allocatable[scene.resource.name] || 0);
    for (const [gang, state, value] of partsOf(row, scene.resource.name)) {
      if (at >= 0 && at < value) return [gang, state];
      at -= value;
    }
    return null;
  }
}

const columnsOf = new Map();
// The grid that fits a tile of these proportions best, with full rows where that is possible.
function cellColumns(count, aspect) {
  const key = count * 1000 + Math.round(aspect * 20);
  let best = columnsOf.get(key);
  if (best) return best;
  let largest = 0;
  for (let columns = 1; columns <= count; columns += 1) {
    const rows = Math.ceil(count / columns),
      size = Math.min(aspect / columns, 1 / rows) * (count % columns ? 0.86 : 1);
    if (size > largest + 1e-9) {
      largest = size;
      best = columns;
    }
  }
  columnsOf.set(key, best);
  return best;
}
