// One pod or Workload: what has happened to it, what holds it now, and what would help.

import { actionButton } from "./actions.js";
import { h, name } from "./dom.js";
import { get } from "./api.js";
import { Refresh } from "./refresh.js";

export class UnitView {
  constructor(store, kind, namespace, unit) {
    this.store = store;
    const target = `${kind}/${encodeURIComponent(namespace)}/${encodeURIComponent(unit)}`;
    this.path = `/api/${target}`;
    this.historyPath = `/api/history/${target}`;
    this.recorded = h("div", {}, h("button", { type: "button", on: { click: () => this.showRecorded() } }, "Show all that is recorded"));
    this.startsPath = `/api/estimates/${target}`;
    this.expected = h("div", {}, h("button", { type: "button", on: { click: () => this.showExpected() } }, "Estimate when it will start"));
    this.title = unit;
    this.element = h("div", {}, h("p", { class: "muted" }, "Reading …"));
    this.shown = "";
    this.refresh = new Refresh(() => this.load(), 500);
  }

  show() {
    this.refresh.soon();
  }

  close() {
    this.refresh.stop();
  }

  async load() {
    try {
      const detail = await get(this.path);
      const text = JSON.stringify(detail);
      if (text === this.shown) return;
      this.shown = text;
      this.element.replaceChildren(...this.content(detail));
    } catch (error) {
      this.shown = "";
      this.element.replaceChildren(h("h1", {}, "Not shown"), h("p", { class: "error", role: "alert" }, error.message), back());
    }
  }

  // On request, because it reads Events and all Workloads of the namespace.
  async showRecorded() {
    try {
      const { entries, unknown } = await get(this.historyPath);
      this.recorded.replaceChildren(
        h("ol", { class: "steps" }, entries.map((each) => h("li", {}, h("span", { class: "muted" }, local(each.at)), h("span", { class: "name" }, each.subject ?? "", each.subject ? ", " : "", each.source), h("span", { class: "name" }, each.text)))),
        h("p", { class: "muted" }, unknown?.length ? "Not known:" : ""),
        h("ul", { class: "muted" }, (unknown ?? []).map((each) => h("li", {}, name(each)))));
    } catch (error) {
      this.recorded.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
  }

  // On request, because the present state is replayed, which may take seconds.
  async showExpected() {
    this.expected.replaceChildren(h("p", { class: "muted", role: "status" }, "Replaying the present state …"));
    try {
      const found = Object.entries(await get(this.startsPath));
      const parts = found.map(([key, each]) => [h("p", {}, key ? [name(key), ": "] : null, expectedText(each)), h("ul", { class: "muted" }, (each.basis ?? []).map((line) => h("li", {}, name(line))))]);
      this.expected.replaceChildren(...(parts.length ? parts.flat() : [h("p", {}, "It does not wait, or its Workload is not known.")]));
    } catch (error) {
      this.expected.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
    }
  }

  content(detail) {
    const parts = [h("p", {}, back()), h("h1", {}, `${detail.kind} `, name(`${detail.namespace}/${detail.name}`))];
    parts.push(section("What has happened", h("ol", { class: "steps" }, detail.history.map((step) =>
      h("li", { class: step.at ? null : "to-come" }, h("span", { class: "muted" }, step.at ? local(step.at) : ""), h("b", {}, step.name), h("span", { class: "name" }, step.note))))));
    if (detail.pod) parts.push(...podSections(detail));
    for (const each of detail.workloads) parts.push(...workloadSections(each));
    if (detail.pod?.state === "waiting" || detail.workloads.some((each) => each.state === "pending")) parts.push(section("Expected start", this.expected));
    parts.push(section("Recorded", this.recorded));
    parts.push(section("In a terminal", h("ul", {}, detail.commands.map((each) => h("li", {}, h("code", {}, each))))));
    return parts;
  }
}

function back() {
  return h("a", { href: "#/waiting", on: { click: (event) => { if (history.length > 1) { event.preventDefault(); history.back(); } } } }, "← Back");
}

function local(at) {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? at : time.toLocaleString("sv-SE");
}

function expectedText(each) {
  if (each.state === "no basis") return ["no basis: ", name(each.reason)];
  if (each.state === "now") return ["now", each.place ? [" (", name(each.place), ")"] : null];
  if (each.state === "later") return `after ${local(each.earliest)}: the upper end is too far away to be estimated`;
  return `between ${local(each.earliest)} and ${local(each.latest)}, in 8 of 10 replays`;
}

function section(title, ...content) {
  return h("section", { class: "panel" }, h("h2", {}, title), ...content);
}

function podSections({ pod, namespace, name: podName }) {
  const facts = [["Scheduler", pod.scheduler], ["Queue", pod.queue], ["Group", pod.group],
    ["Asks for", Object.entries(pod.requests).map(([resource, amount]) => `${amount} ${resource}`).join(", ")],
    ["Capacity promised at", pod.promised_at], ["Lease", pod.lease]];
  const parts = [section("Now", h("p", {}, name(pod.summary)), h("dl", {}, facts.filter(([, value]) => value).map(([label, value]) => [h("dt", {}, label), h("dd", {}, name(value))])))];
  if (pod.holds.length) parts.push(section("What holds it", h("ol", { class: "holds" }, pod.holds.map((hold) =>
    h("li", {}, h("b", {}, `${hold.kind} `), name(hold.name), hold.why ? [" ", h("span", { class: "badge" }, hold.why)] : null,
      hold.kind === "gate" ? [" ", actionButton("Lift this gate", { action: "lift-gate", kind: "Pod", namespace, name: podName, value: hold.name })] : null, h("div", {}, name(hold.text)),
      hold.resource ? h("div", { class: "muted" }, `${hold.resource} in queue ${hold.blocker}: asked ${hold.asked}, taken ${hold.used}, limit ${hold.limit}`) : null,
      hold.position !== undefined && hold.position !== null ? h("div", { class: "muted" }, `before it in queue ${hold.name}: ${hold.position}`) : null)))));
  if (pod.next.length) parts.push(section("What would help", h("ul", {}, pod.next.map((each) => h("li", {}, name(each))))));
  if (pod.ignored.length) parts.push(section("Without effect", h("ul", {}, pod.ignored.map((each) => h("li", {}, name(each))))));
  return parts;
}

function workloadSections(found) {
  const facts = [["Owner", (found.owners ?? []).map((each) => `${each.type}/${each.name}`).join(", ")], ["LocalQueue", found.local_queue], ["ClusterQueue", found.cluster_queue],
    ["Before it in its LocalQueue", found.position], ["Why", found.found]];
  const target = { kind: "Workload", namespace: found.namespace, name: found.name };
  const actions = [["Hold", "hold"], ["Resume", "resume"], ["Change the priority", "set-priority"]].map(([label, action]) => actionButton(label, { action, ...target }));
  const parts = [section(`Workload ${found.namespace}/${found.name}`, h("p", {}, name(found.summary)), h("div", { class: "toolbar" }, actions),
    h("dl", {}, facts.filter(([, value]) => value !== undefined && value !== null && value !== "").map(([label, value]) => [h("dt", {}, label), h("dd", {}, name(String(value)))])))];
  if (found.lacks?.length) parts.push(section("Missing quota", h("table", {},
    h("thead", {}, h("tr", {}, ["Flavor", "Resource", "Asked", "Available", "Missing", "Held by"].map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, found.lacks.map((each) => h("tr", {}, h("th", { scope: "row" }, name(each.flavor)), [each.resource, each.asked, each.available, each.missing].map((cell) => h("td", {}, cell)),
      h("td", {}, (each.held_by ?? []).slice(0, 6).map((holder) => h("div", {}, name(holder.workload || "one that you may not list"), ` ${holder.amount}`)))))))));
  if (found.next?.length) parts.push(section("What would help", h("ul", {}, found.next.map((each) => h("li", {}, name(each))))));
  return parts;
}
