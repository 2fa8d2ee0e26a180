// Requests to the server: the login, questions, and the stream of changes, which resumes after a break.

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  return new Refused(response.status, body.text ?? response.statusText);
}

let session = new AbortController();

// Ends the questions that are on their way.
export function abortQuestions() {
  session.abort();
  session = new AbortController();
}

async function send(path, options) {
  try {
    return await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  } catch {
    throw new Error("the server of this page does not answer; the page asks again");
  }
}

export async function get(path) {
  const response = await send(path, { signal: session.signal });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// Posts, and returns the answer.
export async function ask(path, body) {
  return (await posted(path, body)).json();
}

export async function post(path, body) {
  await posted(path, body);
}

async function posted(path, body) {
  const response = await send(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}) });
  if (!response.ok) throw await refusal(response);
  return response;
}

// The token in the fragment of the address is posted once, and the address is replaced before that.
export async function logInFromAddress() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname + "#/overview");
  await post("/api/login", { token: decodeURIComponent(found[1]) });
}

export class Stream {
  // handlers: event(name, data), state("on" | "lost" | "off"), refused(error)
  constructor(handlers) {
    this.handlers = handlers;
    this.last = "";
    this.wait = 500;
    this.stopped = true;
  }

  start() {
    if (!this.stopped) return;
    this.stopped = false;
    this.run();
  }

  stop() {
    this.stopped = true;
    this.abort?.abort();
    clearTimeout(this.timer);
    this.handlers.state("off");
  }

  async run() {
    const abort = (this.abort = new AbortController());
    try {
      const path = `/api/stream?since=${encodeURIComponent(this.last)}`;
      const response = await fetch(path, { signal: abort.signal, cache: "no-store", credentials: "same-origin" });
      if (!response.ok) throw await refusal(response);
      this.handlers.state("on");
      this.wait = 500;
      await this.read(response.body.getReader());
    } catch (error) {
      if (abort.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) {
        this.stopped = true;
        this.handlers.refused(error);
        return;
      }
    }
    if (this.stopped || abort.signal.aborted) return;
    this.handlers.state("lost");
    this.timer = setTimeout(() => this.run(), this.wait);
    this.wait = Math.min(this.wait * 2, 10000);
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const events = rest.split("\n\n");
      rest = events.pop();
      for (const each of events) this.take(each);
    }
  }

  take(text) {
    let event = "message", data = "", id = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data = line.slice(6);
      else if (line.startsWith("id: ")) id = line.slice(4);
    }
    if (!data) return;
    this.handlers.event(event, JSON.parse(data));
    if (id) this.last = id;
  }
}
