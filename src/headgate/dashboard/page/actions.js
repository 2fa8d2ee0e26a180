// Actions: a dialog first shows what will happen, as the server has checked it with the rights of the viewer, then does it.

import { h, name } from "./dom.js";
import { ask } from "./api.js";

const $ = (id) => document.getElementById(id);
let isAllowed = false, current = null, serial = 0;

export function allowActions(allowed) {
  isAllowed = allowed;
}

// A button that opens the dialog; null if the page changes nothing. An action without a value asks for it.
export function actionButton(label, action) {
  if (!isAllowed) return null;
  const described = `${label}: ${action.kind} ${action.namespace ? `${action.namespace}/` : ""}${action.name ?? ""}`;
  return h("button", { type: "button", class: "act", "aria-label": described, on: { click: () => open(label, action) } }, label);
}

export function closeAction() {
  $("action").close();
}

function open(label, action) {
  const asksForValue = action.action === "set-priority";
  current = action;
  $("action-title").textContent = label;
  $("action-value-form").hidden = !asksForValue;
  $("action-value").value = "";
  reset(asksForValue ? "" : "Asking the server …", "Cancel");
  $("action").showModal();
  if (asksForValue) $("action-value").focus();
  else preview();
}

function reset(text, close) {
  $("action-confirm").disabled = true;
  $("action-confirm").hidden = false;
  $("action-close").textContent = close;
  $("action-text").replaceChildren(h("p", { class: "muted" }, text));
}

async function request(path) {
  const asked = (serial += 1);
  try {
    const answer = await ask(path, current);
    return asked === serial ? answer : null;
  } catch (error) {
    if (asked === serial) show({ title: "", effects: [], problems: [error.message] });
    return null;
  }
}

async function preview() {
  const answer = await request("/api/actions/preview");
  if (!answer) return;
  show(answer);
  current = { ...current, uid: answer.uid };
  $("action-confirm").disabled = answer.affected === 0;
  if (answer.affected) $("action-confirm").focus();
}

async function confirm() {
  reset("The server performs it …", "Close");
  const answer = await request("/api/actions");
  if (!answer) return;
  show(answer, answer.affected ? "Done." : "");
  $("action-confirm").hidden = true;
  $("action-close").focus();
}

function show(answer, done = "") {
  $("action-text").replaceChildren(
    h("p", {}, done ? `${done} ` : "", name(answer.title)),
    h("ul", {}, answer.effects.map((each) => h("li", {}, name(each)))),
    h("ul", { class: "error" }, answer.problems.map((each) => h("li", {}, name(each)))));
}

export function setUpActions() {
  $("action-confirm").addEventListener("click", confirm);
  $("action-close").addEventListener("click", closeAction);
  $("action").addEventListener("close", () => (serial += 1));
  $("action-value-form").addEventListener("submit", (event) => {
    event.preventDefault();
    current = { ...current, value: $("action-value").value.trim() };
    reset("Asking the server …", "Cancel");
    preview();
  });
}
