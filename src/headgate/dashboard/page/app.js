// The frame of the page: the login, the address, the keys, and when the view is drawn.

import { Stream, abortQuestions, get, logInFromAddress, post } from "./api.js";
import { allowActions, closeAction, setUpActions } from "./actions.js";
import { h, name } from "./dom.js";
import { OverviewView } from "./overview.js";
import { QueuesView, QuotaView } from "./queues.js";
import { Store } from "./store.js";
import { GatesView, NodesView, ProblemsView } from "./tables.js";
import { UnitView } from "./unit.js";
import { WaitingView } from "./waiting.js";

const VIEWS = [
  ["overview", "Overview", "o"], ["waiting", "Waiting", "w"], ["queues", "Queues", "q"], ["quota", "Quota", "c"],
  ["gates", "Gates", "t"], ["nodes", "Nodes", "n"], ["problems", "Problems", "p"],
];
const KEYS = [
  ["/", "search what waits"], ["j, k", "next and previous row"], ["Home, End", "first and last row"], ["Enter", "open the row"], ["Esc", "back"],
  ...VIEWS.map(([, title, key]) => [`g ${key}`, title]), ["p", "pause or resume the live updates"], ["?", "this list"],
];
const DRAW_MS = 200;
const $ = (id) => document.getElementById(id);

const store = new Store();
let view = null, isPaused = false, afterG = -Infinity, drawTimer = null, announced = { text: "", at: 0 };

const stream = new Stream({
  event(name, data) {
    if (name === "end") {
      if (data.status === 401) logIn(data.text);
      return;
    }
    if (name === "connection") {
      if (data.problem) showConnection(data);
      else showState("on");
      return;
    }
    store.apply(name, data);
    drawSoon(name === "reset" ? 0 : DRAW_MS);
  },
  state: showState,
  refused: (error) => logIn(error.message),
});

// The server of this page does not reach the cluster. A new stream says it again.
function showConnection({ problem, since_s: sinceS }) {
  const since = new Date(sinceS * 1000).toLocaleString("sv-SE");
  $("connection").hidden = false;
  $("connection").replaceChildren(`The cluster is not reached since ${since}: `, name(problem), ". What is shown is as it was then.");
  $("live").dataset.state = "lost";
  $("live").textContent = "not live";
}

function showState(state) {
  const live = $("live");
  $("connection").hidden = true;
  live.dataset.state = state;
  live.textContent = state === "on" ? "live" : state === "lost" ? `reconnecting since ${new Date().toLocaleTimeString("sv-SE")}` : isPaused ? "paused" : "not live";
}

function drawSoon(afterMs = DRAW_MS) {
  if (drawTimer === null && !isPaused) drawTimer = setTimeout(() => { drawTimer = null; requestAnimationFrame(draw); }, afterMs);
}

function draw() {
  view?.show();
  const totals = store.totals();
  const counts = { waiting: store.units ?? totals.waiting + totals.pending, problems: store.rows.problems.size };
  for (const [key, count] of Object.entries(counts)) {
    const place = $(`count-${key}`);
    if (place && place.textContent !== String(count)) place.textContent = String(count);
  }
  const text = `${counts.waiting} waiting, ${counts.problems} problems`;
  const at = performance.now();
  if (text !== announced.text && at - announced.at > 10000) {
    announced = { text, at };
    $("announce").textContent = text;
  }
}

function route() {
  const [path, search] = location.hash.slice(1).split("?");
  if (!path.startsWith("/")) {
    if (location.hash !== "#main") location.replace("#/overview");
    return;
  }
  const parts = path.split("/").slice(1).map(decode);
  const query = new URLSearchParams(search ?? "");
  view?.close?.();
  if (parts[0] === "unit" && parts.length === 4) view = new UnitView(store, parts[1] === "workloads" ? "workloads" : "pods", parts[2], parts[3]);
  else if (parts[0] === "waiting") view = new WaitingView(store, query);
  else if (parts[0] === "queues") view = new QueuesView(store);
  else if (parts[0] === "quota") view = new QuotaView(store);
  else if (parts[0] === "gates") view = new GatesView(store);
  else if (parts[0] === "nodes") view = new NodesView(store);
  else if (parts[0] === "problems") view = new ProblemsView(store);
  else view = new OverviewView(store);
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === parts[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} – Headgate`;
  $("main").replaceChildren(view.element);
  $("main").dataset.view = location.hash.slice(2);
  $("main").focus({ preventScroll: true });
  scrollTo(0, 0);
  draw();
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function logIn(problem) {
  stream.stop();
  abortQuestions();
  closeAction();
  stream.last = "";
  store.clear();
  view?.close?.();
  view = null;
  $("main").replaceChildren();
  $("announce").textContent = $("server").textContent = "";
  for (const count of document.querySelectorAll("nav .count")) count.textContent = "";
  $("login").hidden = false;
  $("main").hidden = true;
  $("login-problem").textContent = problem ?? "";
  $("token").focus();
}

async function begin() {
  const info = await get("/api/info");
  $("server").textContent = `${info.server} · ${info.viewer}`;
  allowActions(info.allows_actions);
  $("login").hidden = true;
  $("main").hidden = false;
  route();
  if (!document.hidden && !isPaused) stream.start();
}

function pause() {
  isPaused = !isPaused;
  $("pause").setAttribute("aria-pressed", String(isPaused));
  $("pause").textContent = isPaused ? "Resume" : "Pause";
  if (isPaused) stream.stop();
  else stream.start();
  showState(isPaused ? "off" : "on");
}

function moveRow(by) {
  if (view?.move) {
    view.move(by);
    return;
  }
  const rows = [...$("main").querySelectorAll("tbody tr")];
  if (!rows.length) return;
  const current = rows.findIndex((row) => row.classList.contains("current"));
  const next = Math.max(0, Math.min(rows.length - 1, current + by));
  rows[current]?.classList.remove("current");
  rows[next].classList.add("current");
  rows[next].scrollIntoView({ block: "nearest" });
  rows[next].querySelector("a, button")?.focus({ preventScroll: true });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open || $("action").open || !$("login").hidden) return;
  const inField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (inField) event.target.blur();
    else if (location.hash.startsWith("#/unit/")) history.back();
    else if (location.hash.includes("?")) location.hash = location.hash.split("?")[0];
    return;
  }
  if (inField) return;
  const isAfterG = performance.now() - afterG < 1500;
  afterG = -Infinity;
  const target = isAfterG && VIEWS.find(([, , key]) => key === event.key);
  if (target) location.hash = `#/${target[0]}`;
  else if (event.key === "g") afterG = performance.now();
  else if (event.key === "/") $("search").focus();
  else if (event.key === "j" || event.key === "ArrowDown") moveRow(1);
  else if (event.key === "k" || event.key === "ArrowUp") moveRow(-1);
  else if (event.key === "Home" || event.key === "End") moveRow(event.key === "End" ? Infinity : -Infinity);
  else if (event.key === "?") $("help").showModal();
  else if (event.key === "p") pause();
  else if (event.key === "Enter" && event.target.tagName !== "A" && event.target.tagName !== "BUTTON" && view?.open?.()) event.preventDefault();
  else return;
  if (event.key !== "Enter") event.preventDefault();
}

function search(event) {
  event.preventDefault();
  const text = $("search").value.trim();
  location.hash = text ? `#/waiting?search=${encodeURIComponent(text)}` : "#/waiting";
}

function setUp() {
  $("nav").append(...VIEWS.map(([key, title]) =>
    h("li", {}, h("a", { href: `#/${key}`, "data-view": key }, title, key === "waiting" || key === "problems" ? h("span", { class: "count", id: `count-${key}` }) : null))));
  $("keys").append(...KEYS.flatMap(([key, text]) => [h("dt", {}, key), h("dd", {}, text)]));
  setUpActions();
  $("pause").addEventListener("click", pause);
  $("help-button").addEventListener("click", () => $("help").showModal());
  $("logout").addEventListener("click", async () => {
    logIn("");
    const problem = await post("/api/logout").then(() => "You are logged out.", (error) => `You may not be logged out: ${error.message}`);
    logIn(problem);
  });
  $("search-form").addEventListener("submit", search);
  $("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
  $("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = $("token").value.trim();
    $("token").value = "";
    try {
      await post("/api/login", { token });
      await begin();
    } catch (error) {
      $("login-problem").textContent = error.message;
    }
  });
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", () => {
    if (location.hash.startsWith("#token=")) start();
    else route();
  });
  // A hidden page costs the server nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stream.stop();
    else if (!isPaused && $("login").hidden) stream.start();
  });
  setInterval(() => { store.sample(Date.now() / 1000); if (!document.hidden) drawSoon(); }, 5000);
}

async function start() {
  try {
    await logInFromAddress();
    await begin();
  } catch (error) {
    logIn(error.status === 401 ? "" : error.message);
  }
}

setUp();
start();
