// The units that wait, as a list that renders only the rows in view. The server sorts and pages.

import { age, h, name } from "./dom.js";
import { get } from "./api.js";
import { Refresh } from "./refresh.js";

const PAGE = 100;
const OVERSCAN = 8;

export function unitLink(row) {
  const kind = row.kind === "Workload" ? "workloads" : "pods";
  const target = row.kind === "PodGroup" ? row.pod : row.name;
  return h("a", { class: "name", dir: "auto", href: `#/unit/${kind}/${encodeURIComponent(row.namespace)}/${encodeURIComponent(target)}` }, row.name);
}

export class WaitingView {
  title = "Waiting";

  constructor(store, query) {
    this.store = store;
    this.query = query;
    this.pages = new Map();
    this.loading = new Set();
    this.total = 0;
    this.current = -1;
    this.revision = store.waitingRevision;
    this.summary = h("p", { class: "muted", role: "status" });
    this.rows = h("div", { class: "rows" });
    const columns = ["Place", "Name", "Namespace", "Queue", "Waits", "Why"];
    const head = h("div", { class: "row head", role: "row" }, columns.map((each) =>
      h("span", { role: "columnheader", "aria-sort": each === (query.get("queue") ? "Place" : "Waits") ? (query.get("queue") ? "ascending" : "descending") : "none" }, each)));
    this.list = h("div", { class: "list", role: "table", "aria-label": "Units that wait", tabindex: "0", on: { scroll: () => this.render() } }, head, this.rows);
    const filters = ["queue", "namespace", "state", "gate", "search"].filter((each) => query.get(each));
    const text = filters.map((each) => `${each} ${query.get(each)}`).join(", ");
    this.heading = h("h1", {}, "Waiting", text ? [": ", name(text)] : null);
    this.element = h("div", {}, this.heading,
      h("div", { class: "toolbar" }, this.summary, filters.length ? h("a", { href: "#/waiting" }, "Show all") : null), this.list);
    this.problem = h("p", { class: "error", role: "alert" });
    this.element.append(this.problem);
    this.elements = new Map();
    this.height = matchMedia("(max-width: 760px)").matches ? 86 : 46;
    this.refresh = new Refresh(() => this.reload(), 400);
    this.refresh.soon();
  }

  show() {
    if (this.revision !== this.store.waitingRevision || this.refresh.ageMs > 5000) this.refresh.soon();
    this.render();
  }

  // The pages in view; the others are asked for again when they come into view.
  async reload() {
    this.revision = this.store.waitingRevision;
    this.hasFailed = false;
    const [from, to] = this.range().map((index) => Math.floor(index / PAGE));
    for (const page of this.pages.keys()) if (page < from || page > to) this.pages.delete(page);
    await Promise.all(Array.from({ length: to - from + 1 }, (_, index) => this.load(from + index)));
  }

  range() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / this.height) - OVERSCAN);
    const count = Math.ceil((this.list.clientHeight || 600) / this.height) + 2 * OVERSCAN;
    return [first, Math.min(Math.max(this.total - 1, 0), first + count)];
  }

  async load(page) {
    if (this.loading.has(page)) return;
    this.loading.add(page);
    try {
      const query = new URLSearchParams(this.query);
      query.set("offset", page * PAGE);
      query.set("limit", PAGE);
      const found = await get(`/api/waiting?${query}`);
      this.total = found.total;
      this.pages.set(page, found.offset === page * PAGE ? found.entries : []);
      this.problem.textContent = "";
    } catch (error) {
      this.problem.textContent = error.message;
      this.hasFailed = true; // asked again at the next refresh
    }
    this.loading.delete(page);
    this.render();
  }

  entry(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  render() {
    this.rows.style.height = `${this.total * this.height}px`;
    this.list.setAttribute("aria-rowcount", this.total + 1);
    this.summary.textContent = this.total === 1 ? "1 unit waits" : `${this.total.toLocaleString("en")} units wait`;
    const [from, to] = this.range();
    const wanted = new Map();
    for (let index = from; index <= to && index < this.total; index++) {
      const entry = this.entry(index);
      if (!entry) {
        const page = Math.floor(index / PAGE);
        if (!this.hasFailed && !this.refresh.stopped && !this.loading.has(page)) this.load(page);
        continue;
      }
      wanted.set(index, entry);
    }
    for (const [index, known] of this.elements) {
      if (wanted.get(index) !== known.entry) {
        if (known.element.contains(document.activeElement) && wanted.has(index)) this.focusAfter = index;
        known.element.remove();
        this.elements.delete(index);
      }
    }
    for (const [index, entry] of wanted) {
      if (this.elements.has(index)) continue;
      const element = this.row(entry, index);
      this.rows.append(element);
      this.elements.set(index, { entry, element });
    }
    for (const [index, known] of this.elements) known.element.classList.toggle("current", index === this.current);
    const focused = this.elements.get(this.focusAfter);
    if (focused) {
      focused.element.querySelector("a").focus({ preventScroll: true });
      this.focusAfter = undefined;
    }
  }

  row({ row, position, why, sentence }, index) {
    const asks = Object.entries(row.asks).map(([resource, amount]) => `${amount} ${resource}`).join(", ");
    const what = row.kind === "Pod" ? "" : `${row.kind}, ${row.pods} ${row.pods === 1 ? "pod" : "pods"}, `;
    const element = h("div", { class: "row", role: "row", "aria-rowindex": index + 2 },
      h("span", { role: "cell" }, position === null ? "–" : String(position + 1)),
      h("span", { role: "cell" }, h("span", { class: "one" }, unitLink(row)), h("span", { class: "sub" }, `${what}${asks}`)),
      h("span", { role: "cell", class: "name", dir: "auto" }, row.namespace),
      h("span", { role: "cell" }, name(row.queue), h("span", { class: "sub" }, row.local_queue)),
      h("span", { role: "cell" }, age(row.since_s, Date.now() / 1000)),
      h("span", { role: "cell", class: "why", title: sentence, dir: "auto" }, h("span", { class: "badge" }, why), " ", sentence));
    element.style.top = `${index * this.height}px`;
    return element;
  }

  move(by) {
    if (!this.total) return;
    this.current = Math.max(0, Math.min(this.total - 1, this.current + by));
    const top = this.current * this.height, head = 34;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    if (top + this.height + head > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + this.height + head - this.list.clientHeight;
    this.focusAfter = this.current; // the row may have to be loaded first
    this.render();
  }

  open() {
    const element = this.elements.get(this.current)?.element;
    if (!element) return false;
    location.hash = element.querySelector("a").getAttribute("href");
    return true;
  }

  close() {
    this.refresh.stop();
  }
}
