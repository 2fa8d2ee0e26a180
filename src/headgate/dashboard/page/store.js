// The rows of all topics, as the stream has sent them.

const TOPICS = ["overview", "queues", "cluster-queues", "gates", "nodes", "problems"];

export class Store {
  constructor() {
    this.clear();
  }

  // The next viewer may see less.
  clear() {
    this.rows = Object.fromEntries(TOPICS.map((topic) => [topic, new Map()]));
    this.waitingRevision = 0;
    this.units = undefined;
    this.samples = [];
    this.hasRows = false;
  }

  apply(event, data) {
    for (const [topic, change] of Object.entries(data.topics)) {
      if (topic === "waiting") {
        this.waitingRevision = change.revision;
        this.units = change.units;
        continue;
      }
      const rows = this.rows[topic];
      if (event === "reset") rows.clear();
      for (const key of change.removed) rows.delete(key);
      for (const row of change.rows) rows.set(row.key, row);
    }
    this.hasRows = true;
  }

  list(topic) {
    return [...this.rows[topic].values()];
  }

  totals() {
    const totals = { gated: 0, queued: 0, without_node: 0, unschedulable: 0, running: 0, terminating: 0, pending: 0, admitted: 0 };
    for (const row of this.rows.overview.values()) for (const name of Object.keys(totals)) totals[name] += row[name] ?? 0;
    totals.waiting = totals.gated + totals.queued + totals.without_node + totals.unschedulable;
    return totals;
  }

  sample(nowS) {
    if (!this.hasRows) return;
    const totals = this.totals();
    this.samples.push({ at: nowS, waiting: this.units ?? totals.waiting + totals.pending, running: totals.running });
    if (this.samples.length > 180) this.samples.shift();
  }
}
