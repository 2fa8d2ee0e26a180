// The trees of queues: Volcano's Queues, and Kueue's Cohorts, ClusterQueues and LocalQueues, each with bars.

import { actionButton } from "./actions.js";
import { bar, h, keyed, name, use } from "./dom.js";

const LEGEND = [["used", "used"], ["reserved", "reserved (promised, not on a node)"], ["waiting", "waiting"]];

class TreeView {
  constructor(store, topic, heading, note, columns) {
    this.store = store;
    this.topic = topic;
    this.body = h("tbody");
    this.empty = h("p", { class: "muted" });
    this.element = h("div", {}, h("h1", {}, heading),
      h("section", { class: "panel" },
        h("table", { class: "tree" }, h("caption", { class: "hidden" }, heading),
          h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", { scope: "col", class: kind ?? null }, title)))), this.body), this.empty, note));
    this.current = -1;
  }

  show() {
    const items = inTree(this.store.list(this.topic));
    const known = this.body.keyedItems ?? new Map();
    // An item is the same object while the row and its depth are the same.
    const same = items.map((each) => {
      const before = known.get(each.row.key)?.item;
      return before && before.row === each.row && before.depth === each.depth ? before : each;
    });
    keyed(this.body, same, (each) => each.row.key, (each) => this.makeRow(each.row, each.depth));
    this.empty.textContent = items.length ? "" : this.store.hasRows ? "None is there, or you may not list any." : "Reading the cluster …";
  }

  first(row, depth, href, label) {
    const cell = h("th", { scope: "row" }, href ? h("a", { class: "name", dir: "auto", href }, label) : name(label));
    cell.style.paddingLeft = `${depth * 20}px`;
    return cell;
  }
}

function inTree(rows) {
  const children = new Map();
  const keys = new Set(rows.map((row) => row.key));
  for (const row of rows.sort((a, b) => (a.key < b.key ? -1 : 1))) {
    const parent = keys.has(row.parent) && row.parent !== row.key ? row.parent : "";
    children.set(parent, [...(children.get(parent) ?? []), row]);
  }
  const found = [], seen = new Set();
  const walk = (parent, depth) => {
    for (const row of children.get(parent) ?? []) {
      if (seen.has(row.key)) continue;
      seen.add(row.key);
      found.push({ row, depth });
      walk(row.key, depth + 1);
    }
  };
  walk("", 0);
  for (const row of rows) if (!seen.has(row.key)) found.push({ row, depth: 0 }); // parents in a circle
  return found;
}

export class QueuesView extends TreeView {
  title = "Queues";

  constructor(store) {
    const note = h("p", { class: "legend" }, LEGEND.map(([kind, text]) => h("span", {}, bar(1, [[kind, 1]]), text)), "| deserved");
    super(store, "queues", "Queues", note, [["Queue"], ["State"], ["Waiting", "number"], ["Use of each resource"]]);
  }

  makeRow(row, depth) {
    const bars = row.resources.map((each) => {
      const total = Math.max(each.limit ?? 0, each.used + each.reserved + (each.limit === null ? each.waiting : 0), each.deserved);
      return use(each.resource, bar(total, [["used", each.used], ["reserved", each.reserved], ["waiting", each.waiting]], each.deserved), each.text);
    });
    const state = row.refusal ? h("span", { class: "error" }, name(row.refusal)) : h("span", { class: row.state === "Open" ? "good" : "warning" }, row.state);
    const action = row.key === "root" ? null : row.state === "Open" ? actionButton("Hold", { action: "hold", kind: "Queue", name: row.key }) : actionButton("Resume", { action: "resume", kind: "Queue", name: row.key });
    return h("tr", {}, this.first(row, depth, `#/waiting?kind=Queue&queue=${encodeURIComponent(row.key)}`, row.key),
      h("td", {}, state, " ", action), h("td", { class: "number", "data-label": "Waiting" }, String(row.waiting)), h("td", {}, bars.length ? bars : h("span", { class: "muted" }, "empty, no limit")));
  }
}

export class QuotaView extends TreeView {
  title = "Quota";

  constructor(store) {
    const note = h("p", { class: "legend" }, [["used", "used"], ["borrowed", "borrowed"]].map(([kind, text]) => h("span", {}, bar(1, [[kind, 1]]), text)), "| nominal");
    super(store, "cluster-queues", "Cohorts, ClusterQueues and LocalQueues", note, [["Name"], ["State"], ["Pending", "number"], ["Admitted", "number"], ["Use of each flavor"]]);
  }

  makeRow(row, depth) {
    const bars = row.resources.map((each) => {
      const limit = each.borrowing_limit === null ? 0 : each.nominal + each.borrowing_limit;
      const total = Math.max(each.nominal, each.used, limit);
      return use(`${each.flavor}, ${each.resource}`, bar(total, [["used", each.used - each.borrowed], ["borrowed", each.borrowed]], each.nominal), each.text);
    });
    const queue = row.kind === "LocalQueue" ? `namespace=${encodeURIComponent(row.namespace)}&search=${encodeURIComponent(row.name)}` : `kind=ClusterQueue&queue=${encodeURIComponent(row.name)}`;
    const label = row.kind === "LocalQueue" ? `${row.namespace}/${row.name}` : row.name;
    const counts = row.kind === "Cohort" ? ["", ""] : [row.pending, row.admitted + row.reserving];
    return h("tr", {}, this.first(row, depth, row.kind === "Cohort" ? "" : `#/waiting?${queue}`, label),
      h("td", {}, h("span", { class: "muted" }, row.kind), " ", row.active ? "" : h("span", { class: "error" }, name(row.reason)), " ", row.kind === "Cohort" ? null : this.actions(row)),
      ...counts.map((each, index) => h("td", { class: "number", "data-label": each === "" ? null : ["Pending", "Admitted"][index] }, String(each))), h("td", {}, bars));
  }

  actions(row) {
    const target = { kind: row.kind, name: row.name, ...(row.namespace ? { namespace: row.namespace } : {}) };
    return [actionButton("Hold", { action: "hold", ...target }), " ", actionButton("Resume", { action: "resume", ...target })];
  }
}
