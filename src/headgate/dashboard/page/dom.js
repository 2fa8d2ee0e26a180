// Builds elements. Texts go in as text nodes only, so that a name from the cluster is never markup.

export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export function name(text) {
  return h("span", { class: "name", dir: "auto" }, text);
}

// Replaces the children of a container, and keeps the element of each item that is still the same object.
export function keyed(container, items, keyOf, make) {
  const known = container.keyedItems ?? new Map();
  const next = new Map();
  let place = container.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let entry = known.get(key);
    if (!entry || entry.item !== item) {
      const element = make(item);
      if (entry) {
        if (entry.element === place) place = place.nextElementSibling;
        entry.element.remove();
      }
      entry = { item, element };
    }
    next.set(key, entry);
    if (entry.element === place) place = place.nextElementSibling;
    else container.insertBefore(entry.element, place);
  }
  for (const [key, entry] of known) if (!next.has(key)) entry.element.remove();
  container.keyedItems = next;
}

export function age(since, now) {
  if (!since) return "";
  const s = Math.max(0, Math.floor(now - since));
  if (s < 120) return `${s}s`;
  if (s < 600) return `${Math.floor(s / 60)}m${s % 60}s`;
  if (s < 10800) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

// A bar with parts: [class, amount]. The text beside it says the same, so the bar is hidden from screen readers.
export function bar(total, parts, tick) {
  const element = h("div", { class: "bar", "aria-hidden": "true" });
  let left = 0;
  for (const [kind, amount] of parts) {
    if (amount <= 0 || total <= 0) continue;
    const part = h("i", { class: kind });
    part.style.left = `${Math.min(left, 100)}%`;
    part.style.width = `${Math.max(Math.min((100 * amount) / total, 100 - left), 0.7)}%`;
    left += (100 * amount) / total;
    element.append(part);
  }
  if (tick && total > 0 && tick < total) {
    const mark = h("i", { class: "tick" });
    mark.style.left = `${(100 * tick) / total}%`;
    element.append(mark);
  }
  return element;
}

export function use(resource, barElement, text) {
  return h("div", { class: "use" }, h("span", { class: "one" }, resource), barElement, h("span", {}, text));
}

// A table whose columns may be sorted. Columns: {title, sort, cell, number, header}.
export class SortedTable {
  constructor(caption, columns, keyOf, most = 500) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.most = most;
    this.by = columns.findIndex((each) => each.first);
    this.down = this.by >= 0 && columns[this.by].first === "descending";
    this.heads = columns.map((each, index) => {
      const label = each.sort ? h("button", { type: "button", on: { click: () => this.sortBy(index) } }, each.title) : each.title;
      return h("th", { scope: "col", class: each.number ? "number" : null }, label);
    });
    this.body = h("tbody");
    this.note = h("p", { class: "muted" });
    this.element = h("div", {}, h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, this.heads)), this.body), this.note);
    this.items = [];
  }

  sortBy(index) {
    this.down = this.by === index ? !this.down : false;
    this.by = index;
    this.show(this.items);
  }

  show(items) {
    this.items = items;
    const column = this.columns[this.by];
    const sorted = [...items];
    if (column) {
      const sign = this.down ? -1 : 1;
      sorted.sort((a, b) => {
        const x = column.sort(a), y = column.sort(b);
        return sign * (x < y ? -1 : x > y ? 1 : this.keyOf(a) < this.keyOf(b) ? -1 : 1);
      });
    }
    this.heads.forEach((head, index) => {
      if (!this.columns[index].sort) return;
      head.setAttribute("aria-sort", index !== this.by ? "none" : this.down ? "descending" : "ascending");
    });
    keyed(this.body, sorted.slice(0, this.most), this.keyOf, (item) =>
      h("tr", { "data-key": this.keyOf(item) }, this.columns.map((each) =>
        h(each.header ? "th" : "td", { scope: each.header ? "row" : null, class: each.number ? "number" : null }, each.cell(item)))));
    this.note.textContent = sorted.length > this.most ? `${this.most} of ${sorted.length} rows are shown` : "";
  }
}
