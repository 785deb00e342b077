// The search line of the task list: while a word is typed, names and known values are offered below. Arrows choose, Tab
// or Enter takes the chosen one, Escape closes. The words come with the page (data-known), nothing is asked.
const input = document.getElementById("q");
const known = input?.dataset.known ? JSON.parse(input.dataset.known) : null;
let list = null;
let chosen = -1;

function word() {
  const upto = input.value.slice(0, input.selectionStart);
  return upto.slice(upto.search(/\S*$/));
}

function options() {
  const typed = word();
  const at = typed.indexOf(":");
  if (at < 0) {
    return Object.entries(known.names).filter(([name]) => name.startsWith(typed)).slice(0, 8)
      .map(([name, text]) => ({ text: /[>.]$/.test(name) ? name : `${name}:`, note: text, open: true }));
  }
  const [name, value] = [typed.slice(0, at), typed.slice(at + 1)];
  return (known.values[name === "capability" ? "cap" : name] ?? []).filter((one) => one.startsWith(value) && one !== value)
    .slice(0, 8).map((one) => ({ text: `${name}:${one}`, note: "" }));
}

function close() {
  list?.remove();
  list = null;
  chosen = -1;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

function open() {
  const found = document.activeElement === input ? options() : [];
  close();
  if (!found.length) return;
  list = document.createElement("ul");
  list.id = "q-words";
  list.className = "words";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Search words");
  found.forEach((one, place) => {
    const item = document.createElement("li");
    item.id = `q-word-${place}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    const name = document.createElement("b");
    name.textContent = one.text;
    const note = document.createElement("span");
    note.className = "note";
    note.textContent = one.note;
    item.append(name, note);
    item.addEventListener("mousedown", (event) => { event.preventDefault(); take(one); });
    list.append(item);
  });
  list.found = found;
  input.parentElement.append(list);
  input.setAttribute("aria-expanded", "true");
}

function choose(by) {
  const items = [...list.children];
  chosen = (chosen + by + items.length + (chosen < 0 && by < 0 ? 1 : 0)) % items.length;
  items.forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
  input.setAttribute("aria-activedescendant", `q-word-${chosen}`);
}

function take(one) {
  const end = input.selectionStart;
  const start = end - word().length;
  const text = one.text + (one.open ? "" : " ");
  input.setRangeText(text, start, end, "end");
  input.focus();
  open();
}

if (known) {
  for (const [name, value] of [["role", "combobox"], ["aria-expanded", "false"], ["aria-controls", "q-words"], ["aria-autocomplete", "list"]]) input.setAttribute(name, value);
  input.addEventListener("input", open);
  input.addEventListener("click", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && !list) open();
    else if (!list) return;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); choose(event.key === "ArrowDown" ? 1 : -1); }
    else if (event.key === "Escape") { event.stopPropagation(); close(); }
    else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) { event.preventDefault(); take(list.found[chosen]); }
  });
}
