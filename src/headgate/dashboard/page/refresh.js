// When a view asks the server again: soon after a change, not while a request runs, and less often if it takes long.

const COST_FACTOR = 10;

export class Refresh {
  // load: asks, and returns a promise; restMs: the least time between two requests.
  constructor(load, restMs) {
    this.load = load;
    this.restMs = restMs;
    this.tookMs = 0;
    this.endedAt = -Infinity;
    this.timer = null;
    this.busy = this.again = this.stopped = false;
  }

  get ageMs() {
    return performance.now() - this.endedAt;
  }

  soon() {
    if (this.stopped || this.timer !== null) return;
    if (this.busy) {
      this.again = true;
      return;
    }
    const rest = Math.max(this.restMs, COST_FACTOR * this.tookMs);
    this.timer = setTimeout(() => this.now(), Math.max(0, rest - this.ageMs));
  }

  async now() {
    clearTimeout(this.timer);
    this.timer = null;
    this.busy = true;
    const began = performance.now();
    await this.load();
    this.endedAt = performance.now();
    this.tookMs = this.endedAt - began;
    this.busy = false;
    if (this.again) {
      this.again = false;
      this.soon();
    }
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }
}
