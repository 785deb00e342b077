// Ticked rows: their number stands in a bar with what can be done to them. j and k walk the rows, x ticks, the letter of
// a button's data-key presses it. Without script the ticks and buttons work as a plain form.
const boxesOf = (form) => [...form.querySelectorAll(`input[name="${form.dataset.picking}"]`)];
const off = () => { try { return localStorage.getItem("keys") === "off"; } catch { return false; } };
let last = null;

function count(form) {
  const picked = boxesOf(form).filter((box) => box.checked && !box.disabled);
  const bar = form.querySelector(".picked");
  if (!bar) return;
  bar.hidden = picked.length === 0;
  const tasks = picked.reduce((sum, box) => sum + Number(box.closest("tr").dataset.count || 0), 0);
  const gone = form.querySelectorAll("tr[data-gone]").length;
  bar.querySelector("[data-picked]").textContent = `${picked.length.toLocaleString("en")} selected`
    + (tasks ? `, ${tasks.toLocaleString("en")} tasks` : "") + (gone ? ` · ${gone} gone meanwhile` : "");
  document.getElementById("spoken").textContent = `${picked.length} selected`;
  const all = form.querySelector("[data-all]");
  if (all) { all.checked = picked.length > 0 && picked.length === boxesOf(form).length; all.indeterminate = picked.length > 0 && !all.checked; }
  const whole = form.querySelector("[data-whole]");
  if (whole) whole.hidden = !(all && all.checked);
}

document.addEventListener("change", (event) => {
  const form = event.target.closest?.("form[data-picking]");
  if (!form) return;
  if (event.target.matches("[data-all]")) for (const box of boxesOf(form)) if (!box.disabled) box.checked = event.target.checked;
  count(form);
});
document.addEventListener("click", (event) => {
  const box = event.target.closest?.("form[data-picking] .tick input:not([data-all])");
  if (!box) return;
  const boxes = boxesOf(box.form);
  if (event.shiftKey && last?.isConnected) {
    const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
    for (const one of boxes.slice(Math.max(0, from), to + 1)) if (!one.disabled) one.checked = box.checked;
    count(box.form);
  }
  last = box;
});
document.addEventListener("refreshed", () => { for (const form of document.querySelectorAll("form[data-picking]")) count(form); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || off() || document.querySelector("dialog[open]")) return;
  const form = event.target.closest("form[data-picking]");
  const box = form && event.target.matches(".tick input");
  const button = (box || event.target === document.body) && document.querySelector(`main button[data-key="${CSS.escape(event.key)}"]`);
  if (button && !button.closest("[hidden]")) { event.preventDefault(); button.click(); return; }
  if (!box || !["j", "k", "x"].includes(event.key)) return; // elsewhere keys.js walks the rows
  const boxes = boxesOf(form);
  const at = boxes.findIndex((box) => box.closest("tr").contains(document.activeElement));
  if (event.key === "x") { if (at >= 0) { event.preventDefault(); boxes[at].click(); } return; }
  const next = boxes[Math.max(0, Math.min(boxes.length - 1, at + (event.key === "j" ? 1 : -1)))];
  if (next) { event.preventDefault(); next.focus(); }
});
for (const form of document.querySelectorAll("form[data-picking]")) count(form);
