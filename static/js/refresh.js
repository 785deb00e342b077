// Regions that are drawn by the server and follow the live numbers: when the cell named in data-refresh moves, the
// region is fetched again from the page's own address. While the operator is at work inside it (a field, a tick, an open
// fold, selected text) nothing is replaced; rows that have gone are only marked, and their ticks taken off.
const EVERY_MS = 2000;
const due = new Map();

function busy(region) {
  const selection = getSelection();
  if (selection && !selection.isCollapsed && selection.containsNode(region, true)) return true;
  const focused = document.activeElement;
  if (region.contains(focused) && focused.matches("input, select, textarea, summary, button")) return true;
  return [...region.querySelectorAll("input, textarea, select")].some(changed) || Boolean(region.querySelector("details[open]"));
}

function changed(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.matches("select")) return [...field.options].some((option) => option.selected !== option.defaultSelected) && field.selectedIndex > 0;
  return field.type !== "hidden" && field.value !== field.defaultValue;
}

function mark(region, fresh) {
  const present = new Set([...fresh.querySelectorAll("tr[data-id]")].map((row) => row.dataset.id));
  for (const row of region.querySelectorAll("tr[data-id]")) {
    const gone = !present.has(row.dataset.id);
    row.toggleAttribute("data-gone", gone);
    const box = row.querySelector(".tick input");
    if (box) { box.disabled = gone; if (gone) box.checked = false; }
  }
}

async function refresh(region) {
  const { id } = region;
  due.set(id, performance.now() + EVERY_MS);
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(id);
    if (!fresh || !region.isConnected) return;
    if (busy(region)) {
      mark(region, fresh);
      if (!("waits" in region.dataset)) document.getElementById("spoken").textContent = "Changed meanwhile; what you do here is kept.";
      region.dataset.waits = "";
    } else {
      const adopted = document.adoptNode(fresh);
      region.replaceWith(adopted);
      globalThis.htmx?.process(adopted);
    }
    document.dispatchEvent(new CustomEvent("refreshed"));
  } catch { /* the pill tells that the server is away */ }
}

function want(region) {
  const wait = Math.max(Math.random() * 300, (due.get(region.id) ?? 0) - performance.now());
  due.set(region.id, performance.now() + wait + EVERY_MS);
  setTimeout(() => { const now = document.getElementById(region.id); if (now) refresh(now); }, wait);
}

document.addEventListener("cells", ({ detail }) => {
  for (const region of document.querySelectorAll("[data-refresh]")) {
    const value = detail[region.dataset.refresh];
    if (value === undefined || String(value) === region.dataset.version) continue;
    region.dataset.version = String(value);
    want(region);
  }
});
// A list that is no live region: only its ticked rows are asked after now and then, and those that left it are marked.
const ASK_MS = 3000;
let asked = 0;

async function ask(form) {
  const ids = [...form.querySelectorAll(".tick input[name]:checked")].map((box) => box.value);
  if (!ids.length || performance.now() < asked) return;
  asked = performance.now() + ASK_MS;
  const query = new URLSearchParams({ q: `${form.elements.q.value} id:${ids.length > 1 ? ids.join(",") : `${ids[0]},${ids[0]}`}` });
  try {
    const answer = await fetch(`${form.dataset.ask}?${query}`, { headers: { Accept: "text/html" }, redirect: "manual" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const left = new Set([...page.querySelectorAll("tr[data-id]")].map((row) => row.dataset.id));
    for (const box of form.querySelectorAll(".tick input[name]:checked")) {
      if (!ids.includes(box.value) || left.has(box.value)) continue;
      box.closest("tr").setAttribute("data-gone", "");
      box.checked = false;
      box.disabled = true;
    }
    document.dispatchEvent(new CustomEvent("refreshed"));
  } catch { /* asked again with the next numbers */ }
}

document.addEventListener("cells", () => { for (const form of document.querySelectorAll("form[data-ask]")) ask(form); });
document.addEventListener("focusout", () => setTimeout(() => {
  for (const region of document.querySelectorAll("[data-waits]")) if (!busy(region)) { delete region.dataset.waits; want(region); }
}, 200));
