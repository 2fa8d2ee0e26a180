// How full the cluster is, what waits longest, and what is wrong.

import { age, bar, h, keyed, name, use } from "./dom.js";
import { get } from "./api.js";
import { Refresh } from "./refresh.js";
import { unitLink } from "./waiting.js";

const ALWAYS = new Set(["cpu", "memory"]); // other resources are shown when a pod requests them
const SVG = "http://www.w3.org/2000/svg";

export class OverviewView {
  title = "Overview";

  constructor(store) {
    this.store = store;
    this.cards = h("div", { class: "cards" });
    this.capacity = h("div");
    this.spark = document.createElementNS(SVG, "svg");
    this.spark.setAttribute("class", "spark");
    this.spark.setAttribute("viewBox", "0 0 180 50");
    this.spark.setAttribute("preserveAspectRatio", "none");
    this.spark.setAttribute("aria-hidden", "true");
    this.trend = h("p", { class: "muted" });
    this.problems = h("ul");
    this.fine = h("p", { class: "good" });
    this.oldest = h("ol");
    this.namespaces = h("tbody");
    const head = (text, number) => h("th", { scope: "col", class: number ? "number" : null }, text);
    this.element = h("div", {},
      h("h1", {}, "Overview"), this.cards,
      h("div", { class: "columns" },
        h("section", { class: "panel" }, h("h2", {}, "How full are the nodes?"), this.capacity),
        h("section", { class: "panel" }, h("h2", {}, "What is wrong?"), this.problems, this.fine),
        h("section", { class: "panel" }, h("h2", {}, "What waits longest?"), this.oldest),
        h("section", { class: "panel" }, h("h2", {}, "Waiting since this page was opened"), this.spark, this.trend),
        h("section", { class: "panel" }, h("h2", {}, "Pods and pending Workloads by namespace"),
          h("table", {}, h("thead", {}, h("tr", {}, head("Namespace"), head("Waiting", true), head("Gated", true), head("Running", true), head("Pending", true))), this.namespaces))));
    this.revision = -1;
    this.refresh = new Refresh(() => this.showOldest(), 600);
  }

  show() {
    const totals = this.store.totals();
    const problems = this.store.list("problems");
    const cards = [
      ["Waiting for a queue", totals.queued, "#/waiting?state=queued"], ["Behind other gates", totals.gated, "#/waiting?state=gated"],
      ["No node fits", totals.unschedulable, "#/waiting?state=unschedulable"], ["Workloads pending", totals.pending, "#/waiting?state=pending"],
      ["Pods running", totals.running, "#/nodes"], ["Problems", problems.length, "#/problems"],
    ].map(([label, count, link]) => ({ label, count, link }));
    const same = this.shownCards;
    this.shownCards = cards.map((each, index) => (same && same[index].count === each.count ? same[index] : each));
    keyed(this.cards, this.shownCards, (each) => each.label, (each) =>
      h("a", { class: "card", href: each.link }, h("b", {}, each.count.toLocaleString("en")), h("span", {}, each.label)));
    this.showCapacity();
    const first = problems.sort((a, b) => (a.severity < b.severity ? -1 : a.severity > b.severity ? 1 : a.key < b.key ? -1 : 1)).slice(0, 6);
    keyed(this.problems, first, (row) => row.key, (row) =>
      h("li", {}, h("span", { class: row.severity }, row.severity === "error" ? "Error: " : "Warning: "), name(row.subject), ": ", name(row.text)));
    this.fine.textContent = first.length || !this.store.hasRows ? "" : "Nothing is known to be wrong.";
    const rows = this.store.list("overview").sort((a, b) => waiting(b) - waiting(a) || (a.key < b.key ? -1 : 1)).slice(0, 10);
    keyed(this.namespaces, rows, (row) => row.key, (row) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: `#/waiting?namespace=${encodeURIComponent(row.key)}` }, name(row.key))),
      ...[waiting(row), row.gated, row.running, row.pending ?? "?"].map((each) => h("td", { class: "number" }, String(each)))));
    this.showTrend();
    // Ages and reasons change without a change of the units.
    if (this.revision !== this.store.waitingRevision || this.refresh.ageMs > 5000) this.refresh.soon();
  }

  showCapacity() {
    const sums = new Map();
    for (const node of this.store.rows.nodes.values()) {
      for (const each of node.resources) {
        const sum = sums.get(each.resource) ?? { resource: each.resource, allocatable: 0, requested: 0 };
        sum.allocatable += each.allocatable;
        sum.requested += each.requested;
        sums.set(each.resource, sum);
      }
    }
    const rows = [...sums.values()].filter((each) => each.allocatable && (each.requested || ALWAYS.has(each.resource))).sort((a, b) => (a.resource < b.resource ? -1 : 1));
    this.capacity.replaceChildren(...rows.map((each) =>
      use(each.resource, bar(each.allocatable, [["used", each.requested]]), `${Math.round((100 * each.requested) / each.allocatable)} % requested`)));
    if (!rows.length) this.capacity.append(h("p", { class: "muted" }, this.store.hasRows ? "No nodes are known." : "Reading the cluster …"));
  }

  showTrend() {
    const samples = this.store.samples;
    const most = Math.max(1, ...samples.map((each) => each.waiting));
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", samples.map((each, index) => `${index},${(48 - (46 * each.waiting) / most).toFixed(1)}`).join(" "));
    this.spark.replaceChildren(line);
    const last = samples.at(-1);
    this.trend.textContent = last ? `${last.waiting} now, ${most} at most` : "";
  }

  close() {
    this.refresh.stop();
  }

  async showOldest() {
    this.revision = this.store.waitingRevision;
    try {
      const page = await get("/api/waiting?limit=6");
      this.oldest.replaceChildren(...page.entries.map(({ row, sentence }) =>
        h("li", {}, unitLink(row), ` (${age(row.since_s, Date.now() / 1000)}): `, name(sentence))));
      if (!page.entries.length) this.oldest.replaceChildren(h("li", { class: "good" }, "Nothing waits."));
    } catch (error) {
      this.oldest.replaceChildren(h("li", { class: "error" }, error.message));
    }
  }
}

function waiting(row) {
  return row.gated + row.queued + row.without_node + row.unschedulable;
}
