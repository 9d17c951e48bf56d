// The rows that the page shows, by key. A change names what it replaced; views redraw only that.
const EMPTY = {
  boot: "",
  seq: 0,
  cycle: 0,
  at: "",
  leads: true,
  resources: [],
  topologies: {},
  nodes: {},
  gangs: {},
  queues: { capacity: {}, queues: [], outside: [] },
  waiting: {},
  cycles: [],
};
const MOST_CYCLES = 1000;

export class Store extends EventTarget {
  constructor() {
    super();
    this.take(EMPTY);
    this.isKnown = false;
  }

  // A whole state: everything is new.
  take(state) {
    for (const name of ["boot", "seq", "cycle", "at", "leads", "resources", "topologies", "queues", "waiting", "cycles"])
      this[name] = state[name] ?? EMPTY[name];
    this.nodes = new Map(Object.entries(state.nodes || {}));
    this.gangs = new Map(Object.entries(state.gangs || {}));
    this.cycles = [...this.cycles].sort((a, b) => b.cycle - a.cycle);
    this.isKnown = true;
    this.tell({ isWhole: true, nodes: [], gangs: [], cycles: [] });
  }

  // Rows that differ; null: gone; absent: as before.
  apply(change) {
    for (const name of ["seq", "cycle", "at", "leads", "resources", "topologies", "queues", "waiting"])
      if (change[name] !== undefined) this[name] = change[name];
    const nodes = replaceRows(this.nodes, change.nodes),
      gangs = replaceRows(this.gangs, change.gangs);
    const cycles = change.cycles || [];
    if (cycles.length) this.cycles = [...[...cycles].sort((a, b) => b.cycle - a.cycle), ...this.cycles].slice(0, MOST_CYCLES);
    this.tell({ isWhole: Boolean(change.topologies || change.resources), nodes, gangs, cycles, hasQueues: change.queues !== undefined });
  }

  tell(detail) {
    this.dispatchEvent(Object.assign(new Event("change"), { detail }));
  }

  resource(name) {
    return this.resources.find((one) => one.name === name) || this.resources[0] || { name: "", unit: "" };
  }
}

// The keys of every row that was replaced.
function replaceRows(rows, changes) {
  const replaced = [];
  for (const [key, row] of Object.entries(changes || {})) {
    replaced.push(key);
    if (row === null) rows.delete(key);
    else rows.set(key, row);
  }
  return replaced;
}
