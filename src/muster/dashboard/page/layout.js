// Nested tiles: domains of a topology down to nodes. Pure: rows in, rectangles out.
import { byName } from "./format.js";
import { addInto, FIELDS, usageOf } from "./usage.js";

export const NODE_WIDTH = 10,
  NODE_HEIGHT = 6.8;
export const OUTSIDE = "~"; // nodes that the topology does not label

function domainTile(name, parent) {
  return {
    isNode: false,
    name,
    parent,
    path: parent?.path ? `${parent.path}/${name}` : name,
    depth: parent ? parent.depth + 1 : 0,
    children: [],
    byName: new Map(),
    sums: new Float64Array(FIELDS.length),
    x: 0,
    y: 0,
    w: 0,
    h: 0,
    header: 0,
  };
}

// The root of all tiles, and the tile of each node.
export function buildTiles(nodes, topology, resource) {
  const root = domainTile("", null),
    tiles = new Map();
  for (const [name, row] of nodes) {
    const domains = topology ? (row.domains[topology] || OUTSIDE).split("/") : [];
    if (domains[domains.length - 1] === name) domains.pop(); // a level of hosts is the node itself
    let parent = root;
    for (const domain of domains) parent = childOf(parent, domain);
    tiles.set(name, addNode(parent, name, row, resource));
  }
  sortTiles(root);
  return { root, tiles };
}

function childOf(parent, name) {
  let child = parent.byName.get(name);
  if (!child) {
    child = domainTile(name, parent);
    parent.byName.set(name, child);
    parent.children.push(child);
  }
  return child;
}

function addNode(parent, name, row, resource) {
  const tile = {
    isNode: true,
    name,
    parent,
    path: parent.path ? `${parent.path}/${name}` : name,
    depth: parent.depth + 1,
    children: [],
    sums: usageOf(row, resource),
    x: 0,
    y: 0,
    w: NODE_WIDTH,
    h: NODE_HEIGHT,
    header: 0,
  };
  parent.byName.set(name, tile);
  parent.children.push(tile);
  for (let above = parent; above; above = above.parent) addInto(above.sums, tile.sums);
  return tile;
}

// Domains before nodes, by name; what no domain holds is last.
function sortTiles(tile) {
  const rank = (child) => (child.name === OUTSIDE ? 2 : child.isNode ? 1 : 0);
  tile.children.sort((a, b) => rank(a) - rank(b) || byName(a.name, b.name));
  for (const child of tile.children) if (!child.isNode) sortTiles(child);
}

// The sums of another resource, from the nodes up.
export function sumAgain(root, nodes, resource) {
  const visit = (tile) => {
    if (tile.isNode) {
      tile.sums = usageOf(nodes.get(tile.name), resource);
      return;
    }
    tile.sums.fill(0);
    for (const child of tile.children) {
      visit(child);
      addInto(tile.sums, child.sums);
    }
  };
  visit(root);
}

// A node has another row: its sums and those of every domain around it.
export function updateNode(tile, row, resource) {
  const sums = usageOf(row, resource);
  for (let above = tile.parent; above; above = above.parent) {
    addInto(above.sums, tile.sums, -1);
    addInto(above.sums, sums);
  }
  tile.sums = sums;
}

// Proportions that domains may have inside the whole; the ones that show everything largest are taken.
const PROPORTIONS = [0.7, 1, 1.4, 2, 2.8];
const MOST_MEASURED = 60_000; // tiles, over all combinations

// Places all tiles; the whole is about as wide for its height as `aspect` says.
export function placeTiles(root, aspect) {
  const scale = (inner) => {
    measure(root, aspect, inner);
    return Math.min(aspect / root.w, 1 / root.h);
  };
  let best = [],
    largest = 0;
  for (const inner of attempts(depthOf(root) - 1, root.sums[0])) {
    const size = scale(inner);
    if (size > largest * 1.001) {
      largest = size;
      best = inner;
    }
  }
  scale(best);
  root.x = root.y = 0;
  position(root);
}

// Proportions for each level: every combination for few nodes, the same for all levels for many.
function attempts(levels, nodes) {
  if (PROPORTIONS.length ** levels * nodes > MOST_MEASURED) return PROPORTIONS.map((one) => new Array(levels).fill(one));
  let all = [[]];
  for (let level = 0; level < levels; level += 1) all = all.flatMap((inner) => PROPORTIONS.map((one) => [...inner, one]));
  return all;
}

const depthOf = (tile) => (tile.isNode ? 0 : 1 + tile.children.reduce((most, child) => Math.max(most, depthOf(child)), 0));

function measure(tile, aspect, inner) {
  if (tile.isNode) return;
  for (const child of tile.children) measure(child, inner[tile.depth], inner);
  const widest = tile.children.reduce((most, child) => Math.max(most, child.w), NODE_WIDTH);
  tile.gap = tile.children.length && tile.children[0].isNode ? 1 : 0.015 * widest + 1.2;
  tile.pad = tile.depth ? tile.gap * 0.8 + 0.6 : 0;
  tile.columns = bestColumns(tile, aspect);
  const { width, height } = gridSize(tile, tile.columns);
  tile.header = tile.depth ? Math.max(2.8, 0.03 * width) : 0;
  tile.w = width + 2 * tile.pad;
  tile.h = height + tile.header + tile.pad + (tile.header ? tile.pad * 0.35 : tile.pad);
}

function gridSize(tile, columns) {
  let width = 0,
    height = 0;
  for (let at = 0; at < tile.children.length; at += columns) {
    let rowWidth = 0,
      rowHeight = 0;
    for (let i = at; i < Math.min(at + columns, tile.children.length); i += 1) {
      rowWidth += tile.children[i].w + (i > at ? tile.gap : 0);
      rowHeight = Math.max(rowHeight, tile.children[i].h);
    }
    width = Math.max(width, rowWidth);
    height += rowHeight + (at ? tile.gap : 0);
  }
  return { width, height };
}

// As near to the wished proportions as a grid can be, with few empty places in its last row.
function bestColumns(tile, aspect) {
  const count = tile.children.length;
  if (count < 2) return 1;
  const first = tile.children[0],
    middle = Math.sqrt((count * aspect * first.h) / first.w);
  let best = 1,
    lowest = Infinity;
  for (let columns = Math.max(1, Math.floor(middle * 0.5)); columns <= Math.min(count, Math.ceil(middle * 2)); columns += 1) {
    const { width, height } = gridSize(tile, columns),
      empty = (columns - (count % columns || columns)) / count;
    const cost = Math.abs(Math.log(width / height / aspect)) + 3 * empty;
    if (cost < lowest - 1e-9) {
      lowest = cost;
      best = columns;
    }
  }
  return best;
}

function position(tile) {
  let y = tile.y + tile.header + (tile.header ? tile.pad * 0.35 : tile.pad),
    x = tile.x + tile.pad,
    tallest = 0;
  tile.children.forEach((child, i) => {
    if (i && i % tile.columns === 0) {
      x = tile.x + tile.pad;
      y += tallest + tile.gap;
      tallest = 0;
    }
    child.x = x;
    child.y = y;
    x += child.w + tile.gap;
    tallest = Math.max(tallest, child.h);
    if (!child.isNode) position(child);
  });
}

export function tileAt(root, path) {
  let tile = root;
  for (const name of (path || "").split("/").filter(Boolean)) {
    const child = tile.byName?.get(name);
    if (!child) return tile;
    tile = child;
  }
  return tile;
}

export function* nodesBelow(tile) {
  if (tile.isNode) yield tile;
  else for (const child of tile.children) yield* nodesBelow(child);
}

// The next tile beside this one in a direction, among tiles of the same kind near by: null where there is none.
export function besideTile(tile, dx, dy) {
  const siblings = tile.parent ? tile.parent.children : [],
    cx = tile.x + tile.w / 2,
    cy = tile.y + tile.h / 2;
  const near = nearest(siblings, tile, cx, cy, dx, dy);
  if (near || !tile.parent?.parent) return near;
  const next = besideTile(tile.parent, dx, dy);
  if (!next) return null;
  if (next.isNode || !next.children.length) return next;
  const same = next.children.filter((child) => child.isNode === tile.isNode);
  return (same.length ? same : next.children).reduce((best, child) => (distance(child, cx, cy) < distance(best, cx, cy) ? child : best));
}

const distance = (tile, x, y) => Math.hypot(tile.x + tile.w / 2 - x, tile.y + tile.h / 2 - y);

function nearest(tiles, self, cx, cy, dx, dy) {
  let best = null,
    lowest = Infinity;
  for (const other of tiles) {
    if (other === self) continue;
    const x = other.x + other.w / 2 - cx,
      y = other.y + other.h / 2 - cy;
    const along = x * dx + y * dy,
      across = Math.abs(x * dy) + Math.abs(y * dx);
    if (along <= 1e-6 || across > along) continue;
    if (along + 2 * across < lowest) {
      lowest = along + 2 * across;
      best = other;
    }
  }
  return best;
}
