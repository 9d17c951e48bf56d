// What nodes and domains hold of one resource. Sums of domains follow changes of nodes; nothing is summed again.
export const FIELDS = ["nodes", "capacity", "free", "core", "extra", "foreign", "terminating", "nominated", "cordoned", "lost"];
const AT = Object.fromEntries(FIELDS.map((name, i) => [name, i]));

// One node: [nodes, capacity, free, …] in the order of FIELDS. What is free on a node that takes no pods is not free.
export function usageOf(row, resource) {
  const sums = new Float64Array(FIELDS.length);
  if (!row) return sums;
  sums[0] = 1;
  const capacity = row.allocatable[resource] || 0;
  sums[1] = capacity;
  let used = 0;
  for (const [, state, amounts] of row.used) {
    const value = amounts[resource] || 0;
    sums[AT[state]] += value;
    if (state !== "nominated") used += value;
  }
  const free = Math.max(0, capacity - used);
  if (row.flags.includes("lost")) sums[AT.lost] = free;
  else if (row.flags.includes("cordoned")) sums[AT.cordoned] = free;
  else sums[AT.free] = free;
  return sums;
}

export function addInto(sums, more, factor = 1) {
  for (let i = 0; i < sums.length; i += 1) sums[i] += factor * more[i];
}

export const usageFields = (sums) => Object.fromEntries(FIELDS.map((name, i) => [name, sums[i]]));

// Parts of a node in the order in which they are drawn: [gang, state, amount].
export function partsOf(row, resource) {
  const parts = [];
  for (const [gang, state, amounts] of row.used)
    if (amounts[resource] && state !== "nominated") parts.push([gang, state, amounts[resource]]);
  for (const [gang, state, amounts] of row.used)
    if (amounts[resource] && state === "nominated") parts.push([gang, state, amounts[resource]]);
  return parts;
}

// What gangs hold in some nodes, largest first: [gang, amount] of everything but nominations.
export function gangsIn(rows, resource) {
  const sums = new Map();
  for (const row of rows)
    for (const [gang, state, amounts] of row.used) {
      const value = amounts[resource] || 0;
      if (gang && value && state !== "nominated") sums.set(gang, (sums.get(gang) || 0) + value);
    }
  return [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}
