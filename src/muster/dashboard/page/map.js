// The cluster map: nested tiles on a canvas, from all domains down to the devices of one node.
import { parseAddress, setParams } from "./router.js";
import { app, throttled } from "./app.js";
import { choice, element, field, hideTooltip, isolated, setOptions, showTooltip, speak } from "./elements.js";
import { plural, quantity } from "./format.js";
import { besideTile, buildTiles, nodesBelow, placeTiles, sumAgain, tileAt, updateNode } from "./layout.js";
import { mapPanel } from "./map_panel.js";
import { mapTable } from "./map_table.js";
import { describeTile, tileSentence } from "./map_words.js";
import { Camera } from "./camera.js";
import { Painter } from "./painter.js";
import { colorOf, legend, readTheme } from "./palette.js";

const HELP =
  "Arrow keys move between tiles, Enter opens one, Escape goes back out, plus and minus zoom, 0 shows everything. The table below the map holds the same in words.";

export function mapView(route) {
  return new MapView(route);
}

class MapView {
  constructor(route) {
    this.title = "Map";
    this.canvas = element("canvas", { class: "map-canvas" });
    this.painter = new Painter(this.canvas);
    this.hoverRing = element("div", { class: "ring hover", hidden: true });
    this.focusRing = element("div", { class: "ring focus", hidden: true });
    this.surface = element(
      "div",
      {
        class: "map-surface",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "cluster map",
        "aria-label": "Cluster map",
        "aria-describedby": "map-help",
      },
      this.canvas,
      this.hoverRing,
      this.focusRing,
    );
    this.trail = element("nav", { class: "trail", "aria-label": "Where the map is" });
    this.resourceChoice = choice([], "", (value) => setParams({ resource: value }));
    this.topologyChoice = choice([], "", (value) => setParams({ topology: value, at: "" }));
    this.panel = mapPanel(this);
    this.table = mapTable(this);
    this.node = element(
      "section",
      { class: "map-view", "aria-labelledby": "map-title" },
      element("h1", { id: "map-title", class: "unseen" }, "Cluster map"),
      element(
        "div",
        { class: "tools" },
        this.trail,
        element("span", { class: "space" }),
        field("Resource", this.resourceChoice),
        field("Topology", this.topologyChoice),
        element(
          "div",
          { class: "buttons", role: "group", "aria-label": "Zoom" },
          this.button("−", "Zoom out", () => this.camera.zoomBy(1 / 1.6)),
          this.button("+", "Zoom in", () => this.camera.zoomBy(1.6)),
          this.button("Fit", "Fit everything", () => this.enter(this.root)),
        ),
      ),
      element(
        "div",
        { class: "map-body" },
        element("div", { class: "map-frame" }, this.surface, element("p", { id: "map-help", class: "unseen" }, HELP)),
        this.panel.node,
      ),
      legend(),
      this.table.node,
    );
    this.camera = new Camera(
      this.surface,
      () => this.needFrame(true),
      (x, y) => this.click(x, y),
      (x, y) => this.hover(x, y),
    );
    this.camera.onDouble = (x, y) => this.enter(this.tileUnder(x, y));
    this.dirty = new Set();
    this.isAllDirty = true;
    this.frames = { whole: 0, part: 0 };
    this.surface.addEventListener("keydown", (event) => this.key(event));
    this.surface.addEventListener("pointerleave", () => this.unhover());
    this.surface.addEventListener("focus", () => this.showRing(this.focusRing, this.at));
    this.observer = new ResizeObserver(() => this.resize());
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.onScheme = () => {
      this.theme = readTheme();
      this.needFrame(true);
    };
    this.scheme.addEventListener("change", this.onScheme);
    this.theme = readTheme();
    this.showSoon = throttled(700, () => {
      this.panel.show();
      this.table.show();
    });
    this.read(route);
  }

  button(text, label, act) {
    return element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  }

  opened() {
    this.observer.observe(this.surface);
    this.build();
    this.resize();
    this.panel.show();
  }

  close() {
    this.isClosed = true;
    this.observer.disconnect();
    this.showSoon.stop();
    this.camera.stop();
    this.panel.close();
    this.scheme.removeEventListener("change", this.onScheme);
    hideTooltip();
  }

  // What the address says, with defaults.
  read(route) {
    const store = app.shown,
      topologies = Object.keys(store.topologies);
    this.resource = store.resource(route.params.get("resource"));
    this.topology = topologies.includes(route.params.get("topology")) ? route.params.get("topology") : topologies[0] || "";
    this.gang = route.params.get("gang") || "";
    this.path = route.params.get("at") || "";
    setOptions(
      this.resourceChoice,
      store.resources.map((one) => [one.name, one.name]),
      this.resource.name,
    );
    setOptions(this.topologyChoice, topologies.length ? topologies.map((name) => [name, name]) : [["", "none"]], this.topology);
  }

  update(route) {
    const before = { resource: this.resource.name, topology: this.topology, path: this.path, gang: this.gang };
    this.read(route);
    if (before.topology !== this.topology) {
      this.build();
      this.camera.fit(this.root, false);
    } else if (before.resource !== this.resource.name) {
      sumAgain(this.root, app.shown.nodes, this.resource.name);
      this.needFrame(true);
    }
    if (before.gang !== this.gang) {
      this.lightUp();
      this.needFrame(true);
      if (this.gang) speak(`Gang ${this.gang} is lit up.`);
    }
    if (before.path !== this.path || before.topology !== this.topology) this.moveTo(tileAt(this.root, this.path), true);
    this.showTrail();
    this.panel.show();
    this.table.show();
  }

  // Tiles of every node; again when nodes come, go or change their domains.
  build() {
    const made = buildTiles(app.shown.nodes, this.topology, this.resource.name);
    this.root = made.root;
    this.tiles = made.tiles;
    placeTiles(this.root, this.camera.aspect());
    this.camera.world = this.root;
    this.at = tileAt(this.root, this.path);
    this.lightUp();
    this.showTrail();
    this.needFrame(true);
    this.surface.setAttribute("aria-label", `Cluster map: ${plural(this.tiles.size, "node")}`);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.surface;
    if (!width || !height || (this.painter.width === width && this.painter.height === height)) return;
    const isFirst = !this.painter.width;
    this.painter.resize(width, height, devicePixelRatio || 1);
    placeTiles(this.root, this.camera.aspect());
    this.camera.fit(isFirst || this.at ? this.at : this.root, false);
    this.draw();
  }

  // Where the selected gang is: its nodes' domains, and how much of each domain it holds.
  lightUp() {
    this.gangDomains = new Set();
    this.gangSums = new Map();
    if (!this.gang) return;
    for (const [name, tile] of this.tiles) {
      const row = app.shown.nodes.get(name);
      for (const [gang, , amounts] of row.used) {
        if (gang !== this.gang) continue;
        for (let above = tile.parent; above?.depth; above = above.parent) {
          this.gangDomains.add(above);
          this.gangSums.set(above, (this.gangSums.get(above) || 0) + (amounts[this.resource.name] || 0));
        }
      }
    }
  }

  change(detail) {
    if (detail.isWhole) {
      this.read(parseAddress(location.hash));
      const path = this.at?.path;
      this.build();
      if (path !== this.at?.path) this.moveTo(this.at, false);
      this.showSoon();
      return;
    }
    let isMoved = false,
      isLit = false;
    for (const name of detail.nodes) {
      const tile = this.tiles.get(name),
        row = app.shown.nodes.get(name);
      if (!tile || !row || domainOf(row, this.topology, name) !== pathOf(tile)) {
        isMoved = true;
        break;
      }
      updateNode(tile, row, this.resource.name);
      this.dirty.add(tile);
      isLit ||= Boolean(this.gang) && (this.gangDomains.has(tile.parent) || row.used.some(([gang]) => gang === this.gang));
    }
    if (isMoved) {
      this.dirty.clear();
      this.build();
    } else if (isLit) {
      this.lightUp();
      this.needFrame(true);
    }
    if (detail.nodes.size) this.needFrame(isMoved);
    if (detail.nodes.size || detail.gangs.size) this.showSoon();
  }

  needFrame(isWhole) {
    this.isAllDirty ||= isWhole;
    if (this.frame || this.isClosed) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  scene() {
    return {
      root: this.root,
      nodes: app.shown.nodes,
      resource: this.resource,
      theme: this.theme,
      gang: this.gang,
      gangDomains: this.gangDomains,
      gangSums: this.gangSums,
      pods: this.pods,
    };
  }

  draw() {
    if (!this.painter.width || this.isClosed) return;
    const start = performance.now();
    if (this.isAllDirty) {
      this.painter.drawAll(this.scene(), this.camera);
      this.showRing(this.focusRing, this.at);
      this.hoverRing.hidden = true;
      this.frames.whole += 1;
    } else if (this.dirty.size) {
      this.painter.drawChanged(this.dirty, this.scene(), this.camera);
      this.frames.part += 1;
    }
    this.dirty.clear();
    this.isAllDirty = false;
    Object.assign(this.surface.dataset, {
      drawn: String(Math.round((performance.now() - start) * 10) / 10),
      whole: String(this.frames.whole),
      parts: String(this.frames.part),
    });
  }

  // The pods of the selected node, which its devices are labelled with where they are large enough.
  showPods(name, pods) {
    const byPart = new Map();
    for (const pod of pods) {
      const part = `${pod.gang}|${pod.state}`,
        devices = quantity(pod.requests[this.resource.name] || "0") || 0;
      byPart.set(part, [...(byPart.get(part) || []), ...new Array(Math.min(devices, 64)).fill(pod.name)]);
    }
    this.pods = { name, byPart };
    this.dirty.add(this.tiles.get(name));
    this.needFrame(!this.tiles.has(name));
  }

  showRing(ring, tile) {
    ring.hidden = !tile || !tile.parent;
    if (ring.hidden) return;
    const box = this.painter.box(tile, this.camera),
      r = this.painter.ratio;
    ring.style.transform = `translate(${box.x / r - 2}px, ${box.y / r - 2}px)`;
    ring.style.width = `${box.w / r + 4}px`;
    ring.style.height = `${box.h / r + 4}px`;
  }

  // pointing ---------------------------------------------------------------------------------------------------------

  tileUnder(x, y) {
    const px = x / this.camera.k + this.camera.x,
      py = y / this.camera.k + this.camera.y;
    const isIn = (tile) => px >= tile.x && px < tile.x + tile.w && py >= tile.y && py < tile.y + tile.h;
    let tile = this.root;
    while (this.painter.isOpen(tile, this.camera)) {
      const child = tile.children.find(isIn);
      if (!child) break;
      tile = child;
    }
    return tile;
  }

  hover(x, y) {
    const tile = this.tileUnder(x, y),
      box = this.surface.getBoundingClientRect();
    if (!tile.parent) {
      this.unhover();
      return;
    }
    this.showRing(this.hoverRing, tile);
    const part = tile.isNode ? this.painter.partAt(tile, this.scene(), this.camera, x, y) : null;
    showTooltip(
      tile.isNode ? tile.name : tile.path === "~" ? "in no domain" : tile.path,
      describeTile(this, tile, part),
      box.left + x,
      box.top + y,
    );
    this.surface.style.cursor = "pointer";
  }

  unhover() {
    this.hoverRing.hidden = true;
    this.surface.style.cursor = "";
    hideTooltip();
  }

  click(x, y) {
    const tile = this.tileUnder(x, y),
      part = tile.isNode ? this.painter.partAt(tile, this.scene(), this.camera, x, y) : null;
    this.isClicked = true; // the camera stays
    setParams({ at: tile.path, gang: part?.[0] || (tile.isNode && !part ? "" : this.gang) }, true);
    this.isClicked = false;
    this.surface.focus({ preventScroll: true });
  }

  // keyboard ---------------------------------------------------------------------------------------------------------

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const keys = {
      "+": () => this.camera.zoomBy(1.6),
      "=": () => this.camera.zoomBy(1.6),
      "-": () => this.camera.zoomBy(1 / 1.6),
      0: () => this.enter(this.root),
      Enter: () => this.open(),
      Escape: () => this.leave(),
      Home: () => this.enter(this.root),
    };
    if (event.key in arrows) this.step(...arrows[event.key]);
    else if (event.key in keys) keys[event.key]();
    else return;
    event.preventDefault();
  }

  step(dx, dy) {
    const from = this.at;
    const next = !from || !from.parent ? this.root.children[0] : besideTile(from, dx, dy);
    if (!next) return;
    this.isClicked = true;
    setParams({ at: next.path });
    this.isClicked = false;
    this.camera.reveal(next);
  }

  // Into the first tile inside; a node opens as large as it goes.
  open() {
    const tile = this.at || this.root;
    if (tile.isNode || !tile.children.length) {
      this.enter(tile);
      return;
    }
    const isFilling = tile.w * this.camera.k > this.painter.width * 0.5 || tile.h * this.camera.k > this.painter.height * 0.5;
    this.enter(isFilling || !tile.parent ? tile.children[0] : tile);
  }

  leave() {
    if (this.gang) {
      setParams({ gang: "" });
      return;
    }
    if (this.at?.parent) this.enter(this.at.parent);
  }

  // Shows a tile as large as it fits, and says so in the address.
  enter(tile) {
    if (tile.path === this.path) this.camera.fit(tile, true);
    else setParams({ at: tile.path }, true);
  }

  moveTo(tile, isSmooth) {
    this.at = tile;
    if (!this.isClicked) this.camera.fit(tile, isSmooth);
    this.showRing(this.focusRing, tile);
    speak(tileSentence(this, tile));
  }

  showTrail() {
    const tiles = [];
    for (let tile = this.at; tile; tile = tile.parent) tiles.unshift(tile);
    this.trail.replaceChildren(
      element(
        "ol",
        {},
        tiles.map((tile, i) =>
          element(
            "li",
            {},
            i === tiles.length - 1
              ? element("span", { "aria-current": "location" }, isolated(tile.name || "All nodes"))
              : element("button", { type: "button", class: "plain", onclick: () => this.enter(tile) }, isolated(tile.name || "All nodes")),
          ),
        ),
      ),
    );
    if (this.gang)
      this.trail.append(
        element(
          "span",
          { class: "chip" },
          element("i", { class: `swatch state-core g${colorOf(this.gang)}`, "aria-hidden": "true" }),
          isolated(this.gang),
          element(
            "button",
            { type: "button", class: "plain", "aria-label": `Do not light up ${this.gang}`, onclick: () => setParams({ gang: "" }) },
            "×",
          ),
        ),
      );
  }

  rowsBelow(tile) {
    const rows = [];
    for (const node of nodesBelow(tile)) {
      const row = app.shown.nodes.get(node.name);
      if (row) rows.push(row);
    }
    return rows;
  }
}

const pathOf = (tile) => tile.parent.path;
function domainOf(row, topology, name) {
  const path = topology ? row.domains[topology] || "~" : "";
  return path === name ? "" : path.endsWith(`/${name}`) ? path.slice(0, -name.length - 1) : path;
}
