// Shortcuts, never inside a field: space or p pauses updates, / searches, ? lists them, g and a letter opens a page (the
// letters stand in the navigation), j and k go through rows, x ticks one, r, e and . act. The list has a switch for all.
const help = document.getElementById("keys");
const off = () => document.documentElement.dataset.keys === "off" || stored();
const stored = () => { try { return localStorage.getItem("keys") === "off"; } catch { return false; } };
let leader = -Infinity;

const FIELDS = "input, select, textarea, dialog, [contenteditable]";
const NATIVE = "button, a, summary, label";

const rows = () => [...document.querySelectorAll("main tbody tr, main .letters > li")].filter((row) => row.offsetParent && stop(row));
const stop = (row) => row.querySelector("a[href], input, button, summary");
const here = () => document.activeElement?.closest?.("main tbody tr, main .letters > li");

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(here());
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  stop(next).focus();
  next.scrollIntoView({ block: "nearest" });
}

const press = (found) => { if (found) { found.focus(); found.click(); } };
const ACTS = {
  j: () => step(1),
  k: () => step(-1),
  x: () => here()?.querySelector("input[type=checkbox]")?.click(),
  r: () => press(here()?.querySelector("[data-key=r], form[action$='/requeue'] button")),
  e: () => document.querySelector("form[data-edit] input:not([type=hidden]), #editor-form input:not([type=hidden])")?.focus(),
  ".": () => press(here()?.querySelector("details > summary")),
  "/": () => document.getElementById("search")?.focus(),
  "?": () => help?.showModal(),
};

export function listen(live) {
  const box = help?.querySelector("input");
  if (box) {
    box.checked = !off();
    box.addEventListener("change", () => { try { localStorage.setItem("keys", box.checked ? "on" : "off"); } catch { /* kept for this page */ } });
  }
  document.addEventListener("act", (event) => {
    if (event.detail === "pause") live?.toggle();
    else if (event.detail === "keys") help?.showModal();
    else if (event.detail === "theme") document.querySelector("[data-theme-next]")?.click();
    else if (event.detail === "zone") document.querySelector("button[data-zone]")?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || off() || help?.open) return;
    if (event.target.closest(FIELDS)) return;
    const led = event.timeStamp - leader < 1500;
    leader = event.key === "g" ? event.timeStamp : -Infinity;
    if (led) {
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); location.assign(link.href); }
      return;
    }
    if (event.key === " " || event.key === "p") {
      if (live && !(event.key === " " && event.target.closest(NATIVE))) { event.preventDefault(); live.toggle(); }
    } else if (Object.hasOwn(ACTS, event.key)) { event.preventDefault(); ACTS[event.key](); }
  });
}
