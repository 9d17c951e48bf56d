// Addresses of views: `#/gangs/NAMESPACE/NAME?cycle=3`. Whatever a view shows can be shared by its address.
export function parseAddress(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { view: parts[0] || "map", parts: parts.slice(1), params: new URLSearchParams(query || "") };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// Parameters that are empty are left out. Links stay at the cycle that is shown, unless they name another ("": live).
export function address(view, parts = [], params = {}) {
  const query = new URLSearchParams();
  const all = "cycle" in params ? params : { ...params, cycle: parseAddress(location.hash).params.get("cycle") };
  for (const [name, value] of Object.entries(all))
    for (const one of [value].flat()) if (one !== "" && one !== null && one !== undefined) query.append(name, one);
  const text = query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
  return `#/${[view, ...parts].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export const gangAddress = (key, params) => address("gangs", key.split("/"), params);
export const nodeAddress = (name, params) => address("nodes", [name], params);
export const onMap = (gang, params) => address("map", [], { gang, ...params });

// Changes parameters of the address in place: a view that is looked at differently, not another page.
export function setParams(changes, isNewEntry) {
  const route = parseAddress(location.hash),
    params = {};
  for (const name of new Set(route.params.keys())) params[name] = route.params.getAll(name);
  const next = address(route.view, route.parts, { cycle: null, ...params, ...changes });
  if (next === location.hash) return;
  history[isNewEntry ? "pushState" : "replaceState"](null, "", next);
  dispatchEvent(new HashChangeEvent("hashchange"));
}
