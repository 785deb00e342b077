// Shortcuts: space pauses updates, / searches, g and a letter opens a page, ? lists them. Never inside a field; the
// list has a switch that turns the single-letter ones off.
const PAGES = { o: "/", q: "/queues", t: "/tasks", w: "/workers", d: "/dead", a: "/audit", s: "/system" };
const help = document.getElementById("keys");
const off = () => { try { return localStorage.getItem("keys") === "off"; } catch { return false; } };
let leader = 0;

export function listen(live) {
  const box = help?.querySelector("input");
  if (box) {
    box.checked = !off();
    box.addEventListener("change", () => { try { localStorage.setItem("keys", box.checked ? "on" : "off"); } catch { /* kept for this page */ } });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || off() || help?.open) return;
    if (event.target.closest("input, select, textarea, button, a, summary, dialog, [contenteditable]")) return;
    if (event.key === " " && live) { event.preventDefault(); live.toggle(); }
    else if (event.key === "/") { event.preventDefault(); document.getElementById("search")?.focus(); }
    else if (event.key === "?") help?.showModal();
    else if (event.key === "g") leader = event.timeStamp;
    else if (PAGES[event.key] && event.timeStamp - leader < 1500) location.assign(PAGES[event.key]);
  });
}
