// The command palette: Ctrl-K or ⌘K. A combobox over a list that the server fills; nothing is changed from here.
import { icon } from "./toasts.js";

const dialog = document.getElementById("palette");
const WAIT_MS = 120;
let entries = [];
let chosen = 0;
let timer = 0;
let asked = 0;

const field = () => dialog.querySelector("input");
const list = () => dialog.querySelector("[role=listbox]");

export function open() {
  if (!dialog || dialog.open) return;
  field().value = "";
  dialog.showModal();
  ask();
}

async function ask() {
  const number = ++asked;
  const { pool, tenant } = document.body.dataset;
  const query = new URLSearchParams({ q: field().value, ...(pool && { pool }), ...(tenant && { tenant }) });
  try {
    const answer = await fetch(`/palette?${query}`, { headers: { Accept: "application/json" }, redirect: "manual" });
    if (answer.type === "opaqueredirect") { location.reload(); return; }
    if (number !== asked) return;
    entries = answer.ok ? (await answer.json()).entries : [];
    show(answer.ok ? "Nothing matches." : "The list could not be read.");
  } catch { if (number === asked) { entries = []; show("The server did not answer."); } }
}

function show(nothing) {
  const typed = field().value.trim();
  list().replaceChildren(...entries.map((entry, place) => option(entry, place, typed)));
  dialog.querySelector("[role=status]").textContent = entries.length ? `${entries.length} entries` : nothing;
  dialog.querySelector(".none").textContent = entries.length ? "" : nothing;
  choose(0);
}

function option(entry, place, typed) {
  const row = document.createElement("li");
  row.id = `palette-${place}`;
  row.setAttribute("role", "option");
  const text = document.createElement("span");
  text.className = "grow cut";
  text.append(...marked(entry.text, typed));
  const note = document.createElement("span");
  note.className = "state";
  if (entry.state) { note.dataset.tone = entry.tone; note.append(icon(entry.state)); }
  note.append(entry.note);
  row.append(icon(entry.icon), text, note);
  row.addEventListener("click", () => go(entry));
  row.addEventListener("pointermove", () => choose(place, false));
  return row;
}

// The typed part of a name in bold; text only ever becomes text.
function marked(text, typed) {
  const at = typed ? text.toLowerCase().indexOf(typed.toLowerCase()) : -1;
  if (at < 0) return [text];
  const bold = document.createElement("b");
  bold.textContent = text.slice(at, at + typed.length);
  return [text.slice(0, at), bold, text.slice(at + typed.length)];
}

function choose(place, scroll = true) {
  chosen = entries.length ? (place + entries.length) % entries.length : 0;
  for (const [at, row] of [...list().children].entries()) {
    row.setAttribute("aria-selected", String(at === chosen));
    if (at === chosen && scroll) row.scrollIntoView({ block: "nearest" });
  }
  if (entries.length) field().setAttribute("aria-activedescendant", `palette-${chosen}`);
  else field().removeAttribute("aria-activedescendant");
}

function go(entry) {
  if (!entry) return;
  dialog.close();
  if (entry.href) location.assign(entry.href);
  else document.dispatchEvent(new CustomEvent("act", { detail: entry.act }));
}

dialog?.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, WAIT_MS); });
dialog?.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Home" && event.ctrlKey) choose(0);
  else if (event.key === "Enter") go(entries[chosen]);
  else return;
  event.preventDefault();
});
dialog?.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
    event.preventDefault();
    open();
  }
});
document.addEventListener("click", (event) => { if (event.target.closest?.("[data-palette]")) open(); });
