// Where the map looks: pan, zoom about a point, and movements that end at a tile.
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
const MOVE_MILLISECONDS = 220,
  LARGEST_DEVICE = 60; // zoom ends where a node fills the window

export class Camera {
  constructor(surface, onMove, onClick, onHover) {
    Object.assign(this, { surface, onMove, onClick, onHover, x: 0, y: 0, k: 1, world: null });
    surface.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    surface.addEventListener("pointerdown", (event) => this.press(event));
    surface.addEventListener("pointermove", (event) => this.move(event));
    surface.addEventListener("pointerup", (event) => this.release(event));
    surface.addEventListener("pointercancel", () => this.points.clear());
    surface.addEventListener("dblclick", (event) => this.onDouble?.(event.offsetX, event.offsetY));
    this.points = new Map(); // fingers or the mouse, while pressed
  }

  aspect() {
    const { clientWidth: width, clientHeight: height } = this.surface;
    return width && height ? width / height : 1.6;
  }

  goal(tile) {
    const { clientWidth: width, clientHeight: height } = this.surface,
      margin = tile.parent ? 14 : 4;
    const k = Math.min((width - 2 * margin) / tile.w, (height - 2 * margin) / tile.h, LARGEST_DEVICE);
    return { x: tile.x + tile.w / 2 - width / 2 / k, y: tile.y + tile.h / 2 - height / 2 / k, k };
  }

  fit(tile, isSmooth) {
    const goal = this.goal(tile);
    if (isSmooth && !STILL.matches) this.glide(goal);
    else {
      this.stop();
      Object.assign(this, goal);
      this.onMove();
    }
  }

  // In equal steps of scale, with the same speed on the screen.
  glide(goal) {
    const from = { x: this.x, y: this.y, k: this.k },
      start = performance.now();
    this.stop();
    const tick = (now) => {
      const part = Math.min(1, (now - start) / MOVE_MILLISECONDS),
        eased = 1 - (1 - part) ** 3;
      this.k = from.k * (goal.k / from.k) ** eased;
      const weight = goal.k === from.k ? eased : (1 / from.k - 1 / this.k) / (1 / from.k - 1 / goal.k);
      this.x = from.x + (goal.x - from.x) * weight;
      this.y = from.y + (goal.y - from.y) * weight;
      this.onMove();
      this.gliding = part < 1 ? requestAnimationFrame(tick) : 0;
    };
    this.gliding = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.gliding);
    this.gliding = 0;
  }

  zoomBy(factor, px = this.surface.clientWidth / 2, py = this.surface.clientHeight / 2) {
    const least = this.world ? this.goal(this.world).k * 0.9 : 0.01;
    const k = Math.min(Math.max(this.k * factor, least), LARGEST_DEVICE);
    this.stop();
    this.x += px / this.k - px / k;
    this.y += py / this.k - py / k;
    this.k = k;
    this.keepInSight();
    this.onMove();
  }

  // The cluster never leaves the window as a whole.
  keepInSight() {
    if (!this.world) return;
    const { clientWidth: width, clientHeight: height } = this.surface,
      { w, h } = this.world;
    const bound = (at, size, view) => (view >= size ? (size - view) / 2 : Math.min(Math.max(at, -0.1 * view), size - 0.9 * view));
    this.x = bound(this.x, w, width / this.k);
    this.y = bound(this.y, h, height / this.k);
  }

  // Moves just as far as needed to see a tile.
  reveal(tile) {
    const width = this.surface.clientWidth / this.k,
      height = this.surface.clientHeight / this.k,
      margin = 12 / this.k;
    if (tile.w > width || tile.h > height) {
      this.fit(tile, true);
      return;
    }
    const x = Math.min(Math.max(this.x, tile.x + tile.w + margin - width), tile.x - margin),
      y = Math.min(Math.max(this.y, tile.y + tile.h + margin - height), tile.y - margin);
    if (x === this.x && y === this.y) return;
    if (STILL.matches) {
      this.x = x;
      this.y = y;
      this.onMove();
    } else this.glide({ x, y, k: this.k });
  }

  wheel(event) {
    event.preventDefault();
    this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : event.ctrlKey ? 0.01 : 0.0018)), event.offsetX, event.offsetY);
  }

  press(event) {
    if (event.button) return;
    this.points.set(event.pointerId, [event.clientX, event.clientY]);
    this.pressed = this.points.size === 1 ? { x: event.clientX, y: event.clientY, isClick: true } : null;
  }

  move(event) {
    const before = this.points.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") this.onHover(event.offsetX, event.offsetY);
      return;
    }
    if (this.pressed && Math.hypot(event.clientX - this.pressed.x, event.clientY - this.pressed.y) < 4) return;
    if (this.pressed?.isClick) {
      this.pressed.isClick = false;
      this.surface.setPointerCapture(event.pointerId);
      this.stop();
    }
    const others = [...this.points].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    this.points.set(event.pointerId, [event.clientX, event.clientY]);
    if (others.length) {
      const [ox, oy] = others[0],
        box = this.surface.getBoundingClientRect();
      const factor = Math.hypot(event.clientX - ox, event.clientY - oy) / Math.max(1, Math.hypot(before[0] - ox, before[1] - oy));
      this.zoomBy(factor, (event.clientX + ox) / 2 - box.left, (event.clientY + oy) / 2 - box.top);
      return;
    }
    this.x -= (event.clientX - before[0]) / this.k;
    this.y -= (event.clientY - before[1]) / this.k;
    this.keepInSight();
    this.onMove();
  }

  release(event) {
    const isClick = this.pressed?.isClick && this.points.has(event.pointerId);
    this.points.delete(event.pointerId);
    this.pressed = null;
    if (isClick) this.onClick(event.offsetX, event.offsetY);
  }
}
