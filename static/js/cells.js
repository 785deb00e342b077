// Cells: puts changed values where the page shows them. Text only ever becomes text; attributes come from a short list.
// What the operator is typing in, has focused or selected is left alone until he lets go of it.
import { offer, isBusy } from "./edit.js";
import { put } from "./times.js";

const ATTRIBUTES = new Set(["x", "width", "height", "d", "hidden", "data-tone", "data-c", "data-scale", "data-until", "data-ttl", "data-count"]);
const sprite = document.documentElement.dataset.icons;

export class Cells {
  constructor(root = document.body) {
    this.root = root;
    this.values = new Map();
    this.held = new Set();
    this.scan();
    document.addEventListener("selectionchange", () => { if (this.held.size && !selected()) this.release(); });
    document.addEventListener("focusout", () => setTimeout(() => this.reconcile(), 0));
    document.addEventListener("refreshed", () => { this.scan(); for (const key of this.values.keys()) this.write(key); });
  }

  // Which elements show which cell; made anew whenever rows came or went.
  scan() {
    this.places = new Map();
    const add = (key, place) => {
      const found = this.places.get(key);
      if (found) found.push(place); else this.places.set(key, [place]);
    };
    for (const element of this.root.querySelectorAll("[data-k]")) add(element.dataset.k, [element, ""]);
    for (const element of this.root.querySelectorAll("[data-b]")) {
      for (const pair of element.dataset.b.split(";")) {
        const at = pair.indexOf(":");
        add(pair.slice(at + 1), [element, pair.slice(0, at)]);
      }
    }
    this.lists = [...this.root.querySelectorAll("[data-list]")];
  }

  // `full`: these are all cells; whatever is missing has gone.
  apply(changes, full = false) {
    if (full) for (const key of this.values.keys()) if (!(key in changes)) this.values.delete(key);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) this.values.delete(key); else this.values.set(key, value);
    }
    const fresh = this.reconcile();
    for (const key of Object.keys(changes)) this.write(key);
    for (const key of fresh) this.write(key);
  }

  write(key) {
    const value = this.values.get(key);
    for (const [element, attribute] of this.places.get(key) ?? []) {
      if (attribute === "") this.text(element, key, value);
      else if (attribute === "value") offer(element, value);
      else if (attribute === "icon") element.setAttribute("href", `${sprite}#${value ?? "none"}`);
      else if (ATTRIBUTES.has(attribute)) set(element, attribute, value);
    }
  }

  text(element, key, value) {
    if (element.dataset.t) { if (!selected()?.containsNode(element, true)) put(element, value); return; }
    const text = value === undefined || value === false ? "" : String(value);
    if (element.textContent === text) return;
    if (selected()?.containsNode(element, true)) this.held.add(key);
    else element.textContent = text;
  }

  release() {
    const held = [...this.held];
    this.held.clear();
    for (const key of held) this.write(key);
  }

  // Rows follow the list cells. Returns the keys inside rows that are new.
  reconcile() {
    let changed = false;
    for (const container of this.lists) {
      const ids = this.values.get(container.dataset.list);
      if (Array.isArray(ids) && arrange(container, ids)) changed = true;
    }
    if (!changed) return [];
    const before = this.places;
    this.scan();
    return [...this.places.keys()].filter((key) => this.places.get(key).length !== before.get(key)?.length);
  }
}

function selected() {
  const selection = getSelection();
  return selection && !selection.isCollapsed ? selection : null;
}

function set(element, attribute, value) {
  if (value === undefined || value === false) element.removeAttribute(attribute);
  else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(attribute) !== text) element.setAttribute(attribute, text);
  }
}

// Makes the children of `container` the rows `ids` in this order; true when rows came or went.
function arrange(container, ids) {
  const rows = new Map([...container.children].map((row) => [row.dataset.id, row]));
  const same = rows.size === ids.length && ids.every((id, place) => container.children[place].dataset.id === id);
  if (same) return false;
  const template = document.querySelector(`template[data-row="${container.dataset.list}"]`);
  if (!template) return false;
  const wanted = new Set(ids);
  let changed = false;
  let busy = false;
  for (const [id, row] of rows) {
    if (isBusy(row)) busy = true;
    row.toggleAttribute("data-gone", !wanted.has(id));
    if (!wanted.has(id) && !isBusy(row)) { row.remove(); rows.delete(id); changed = true; }
  }
  let after = null;
  for (const id of ids) {
    let row = rows.get(id);
    if (!row) { row = make(template, id); changed = true; }
    if (!row.isConnected || (!busy && row.previousElementSibling !== after)) {
      if (busy) container.append(row); else container.insertBefore(row, after ? after.nextSibling : container.firstChild);
      if (changed) globalThis.htmx?.process(row);
    }
    after = row;
  }
  return changed;
}

function make(template, id) {
  const row = template.content.firstElementChild.cloneNode(true);
  for (const element of [row, ...row.querySelectorAll("*")]) {
    for (const attribute of element.attributes) {
      if (attribute.value.includes("{id}")) attribute.value = attribute.value.replaceAll("{id}", id);
    }
  }
  return row;
}
