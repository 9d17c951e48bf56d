// A still map of some nodes, for pages that compare.
import { element } from "./elements.js";
import { buildTiles, placeTiles } from "./layout.js";
import { Painter } from "./painter.js";
import { readTheme } from "./palette.js";

export function smallMap(rows, topology, resource, label) {
  const canvas = element("canvas", { role: "img", "aria-label": label }),
    node = element("div", { class: "small-map" }, canvas),
    nodes = new Map(Object.entries(rows));
  const { root } = buildTiles(nodes, topology, resource.name),
    painter = new Painter(canvas);
  const draw = () => {
    const width = node.clientWidth;
    if (!width) return;
    placeTiles(root, 1.6);
    const k = Math.min(width / root.w, 9),
      height = Math.ceil(root.h * k);
    canvas.style.height = `${height}px`;
    painter.resize(width, height, devicePixelRatio || 1);
    painter.drawAll(
      { root, nodes, resource, theme: readTheme(), gang: "", gangDomains: new Set(), gangSums: new Map() },
      { x: 0, y: 0, k },
    );
  };
  new ResizeObserver(draw).observe(node);
  return node;
}
