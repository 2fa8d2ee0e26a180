// Gates, nodes and problems.

import { actionButton } from "./actions.js";
import { SortedTable, age, h, keyed, name } from "./dom.js";

const now = () => Date.now() / 1000;

export class GatesView {
  title = "Gates";

  constructor(store) {
    this.store = store;
    this.table = new SortedTable("Gates", [
      { title: "Gate", header: true, sort: (row) => row.gate, cell: (row) => h("a", { class: "name", href: `#/waiting?gate=${encodeURIComponent(row.gate)}&namespace=${encodeURIComponent(row.namespace)}` }, row.gate) },
      { title: "Namespace", sort: (row) => row.namespace, cell: (row) => name(row.namespace) },
      { title: "Pods", number: true, sort: (row) => row.pods, cell: (row) => String(row.pods) },
      { title: "Oldest", first: "ascending", sort: (row) => row.since_s, cell: (row) => [age(row.since_s, now()), " ", name(row.oldest)] },
      { title: "Removed by", sort: (row) => row.owner, cell: (row) => [name(row.owner || "not known: no GatePolicy names it"), " ", actionButton("Lift from all pods", { action: "lift-gate", kind: "Namespace", namespace: row.namespace, value: row.gate })] },
      { title: "Health", sort: (row) => row.health, cell: (row) => h("span", { class: row.health === "OK" ? "good" : row.health && row.health !== "not reported" ? "error" : "muted" }, row.health || "–") },
    ], (row) => row.key);
    this.element = h("div", {}, h("h1", {}, "Gates that hold pods"), h("section", { class: "panel" }, this.table.element));
  }

  show() {
    this.table.show(this.store.list("gates"));
  }
}

export class NodesView {
  title = "Nodes";

  constructor(store) {
    this.store = store;
    this.resource = "";
    this.heat = h("div", { class: "heat", role: "list", "aria-label": "Requested share of each node" });
    this.choice = h("select", { id: "resource", on: { change: () => { this.resource = this.choice.value; this.heat.keyedItems = null; this.heat.replaceChildren(); this.show(); } } });
    this.facts = h("p", { class: "muted", role: "status" }, "Select a node to see its amounts.");
    this.table = new SortedTable("Nodes", [
      { title: "Node", header: true, first: "ascending", sort: (row) => row.key, cell: (row) => name(row.key) },
      { title: "Group", sort: (row) => row.group, cell: (row) => name(row.group) },
      { title: "State", sort: (row) => state(row), cell: (row) => h("span", { class: row.ready && row.schedulable ? "good" : "error" }, state(row)) },
      { title: "Pods", number: true, sort: (row) => row.pods, cell: (row) => String(row.pods) },
      { title: "Fullest", number: true, sort: (row) => row.share, cell: (row) => `${Math.round(100 * row.share)} % ${row.dominant}` },
      { title: "Requested", cell: (row) => row.resources.filter((each) => each.requested).map((each) => h("div", {}, `${each.resource}: ${each.text}`)) },
    ], (row) => row.key, 300);
    this.element = h("div", {}, h("h1", {}, "Nodes"),
      h("section", { class: "panel" }, h("div", { class: "toolbar" }, h("label", { for: "resource" }, "Share of "), this.choice), this.heat, this.facts),
      h("section", { class: "panel" }, this.table.element));
  }

  share(row) {
    if (!this.resource) return row.share;
    const found = row.resources.find((each) => each.resource === this.resource);
    return found && found.allocatable ? found.requested / found.allocatable : 0;
  }

  show() {
    const rows = this.store.list("nodes").sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : a.key < b.key ? -1 : 1));
    const names = ["", ...new Set(rows.slice(0, 200).flatMap((row) => row.resources.map((each) => each.resource)))];
    if (this.choice.options.length !== names.length)
      this.choice.replaceChildren(...names.map((each) => h("option", { value: each, selected: each === this.resource }, each || "the fullest resource")));
    keyed(this.heat, rows.slice(0, 5000), (row) => row.key, (row) => {
      const share = this.share(row);
      const level = Math.min(4, Math.floor(share * 5));
      const text = `${row.key}: ${row.resources.map((each) => `${each.resource} ${each.text}`).join("; ")}`;
      const show = () => (this.facts.textContent = text);
      return h("div", { role: "listitem" }, h("button", { type: "button", class: `h${level}${row.ready && row.schedulable ? "" : " off"}`, title: text, "aria-label": text, on: { focus: show, click: show, mouseenter: show } }, `${Math.round(100 * share)}%`));
    });
    this.table.show(rows);
  }
}

function state(row) {
  return !row.ready ? "not ready" : row.schedulable ? "ready" : "not schedulable";
}

export class ProblemsView {
  title = "Problems";

  constructor(store) {
    this.store = store;
    this.table = new SortedTable("Problems", [
      { title: "Severity", first: "ascending", sort: (row) => row.severity, cell: (row) => h("span", { class: row.severity }, row.severity) },
      { title: "Object", header: true, sort: (row) => row.subject, cell: (row) => [name(row.subject), h("div", { class: "muted" }, row.kind)] },
      { title: "Namespace", sort: (row) => row.namespace, cell: (row) => name(row.namespace) },
      { title: "What is wrong", cell: (row) => [name(row.text), row.fix ? h("div", { class: "muted" }, "To do: ", name(row.fix)) : null] },
    ], (row) => row.key);
    this.none = h("p", { class: "good" });
    this.element = h("div", {}, h("h1", {}, "Problems"), h("section", { class: "panel" }, this.table.element, this.none));
  }

  show() {
    const rows = this.store.list("problems");
    this.table.show(rows);
    this.none.textContent = rows.length ? "" : "Nothing is known to be wrong.";
  }
}
