// In-place edits. A typed value belongs to the operator: updates from elsewhere wait beside it and are told in a note.
const inputOf = (form) => form.elements.weight;
const noteOf = (form) => document.getElementById(inputOf(form).getAttribute("aria-describedby"));

export const isDirty = (form) => inputOf(form).value.trim() !== inputOf(form).defaultValue;

// Whether the operator is at work inside `element`: focus, a changed field or selected text.
export function isBusy(element) {
  const selection = getSelection();
  return element.contains(document.activeElement)
    || [...element.querySelectorAll("form[data-edit]")].some(isDirty)
    || element.querySelector("details[open]") !== null
    || [...element.querySelectorAll("form:not([data-edit]) :is(input, textarea)")].some((field) => field.value !== field.defaultValue)
    || Boolean(selection && !selection.isCollapsed && selection.containsNode(element, true));
}

// A new value from the server for one field of an edit form.
export function offer(field, value) {
  const form = field.form;
  const text = value === undefined ? "" : String(value);
  form.latest = { ...form.latest, [field.name]: text };
  if (isDirty(form) || form.contains(document.activeElement)) tell(form);
  else accept(form);
}

function accept(form) {
  for (const [name, text] of Object.entries(form.latest ?? {})) {
    const field = form.elements[name];
    if (field.defaultValue !== text || field.value !== text) { field.defaultValue = text; field.value = text; }
  }
  note(form, "");
  mark(form);
}

function tell(form) {
  const now = form.latest?.[inputOf(form).name];
  if (now === undefined || now === inputOf(form).defaultValue) return;
  note(form, `Somebody else set it to ${now} meanwhile.`);
}

function note(form, text, bad = false) {
  const line = noteOf(form);
  if (line.textContent !== text) line.textContent = text;
  line.classList.toggle("bad", bad);
  form.toggleAttribute("data-refused", bad);
  form.toggleAttribute("data-told", text !== "");
  if (bad) inputOf(form).setAttribute("aria-invalid", "true"); else inputOf(form).removeAttribute("aria-invalid");
}

function mark(form) {
  form.toggleAttribute("data-dirty", isDirty(form));
  form.querySelector("s").textContent = isDirty(form) ? inputOf(form).defaultValue : "";
}

function discard(form) {
  inputOf(form).value = inputOf(form).defaultValue;
  accept(form);
  inputOf(form).focus();
}

const formOf = (event) => event.target.closest?.("form[data-edit]");

document.addEventListener("input", (event) => {
  const form = formOf(event);
  if (form && event.target === inputOf(form)) { note(form, ""); mark(form); tell(form); }
});
document.addEventListener("focusout", (event) => {
  const form = formOf(event);
  if (form && !form.contains(event.relatedTarget) && !isDirty(form)) accept(form);
});
document.addEventListener("keydown", (event) => {
  const form = event.key === "Escape" && formOf(event);
  if (form) discard(form);
});
document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-discard]")) discard(formOf(event));
});
document.addEventListener("done", (event) => {
  const form = formOf(event);
  if (!form) return;
  form.latest = { ...form.latest, ...event.detail.saved };
  form.elements.reason.value = "";
  accept(form);
});
document.addEventListener("refused", (event) => {
  const form = formOf(event);
  if (!form) return;
  const { slug, text, errors, current } = event.detail;
  const field = inputOf(form).name;
  if (slug === "version-conflict" && current) {
    form.elements.version.value = form.elements.version.defaultValue = current.version;
    inputOf(form).defaultValue = String(current[field]);
    mark(form);
    note(form, `Not applied: somebody else saved ${current[field]} first. Save again to replace it.`, true);
  } else {
    note(form, errors?.find((error) => error.field === field)?.message ?? text, true);
  }
});

// The editor of the policy asks the server to judge its draft anew when somebody changed the policy.
let policy;
document.addEventListener("cells", ({ detail }) => {
  const version = detail["policy.v"];
  if (version === undefined) return;
  if (policy !== undefined && version !== policy) document.querySelector("form[data-check]")?.dispatchEvent(new Event("check"));
  policy = version;
});
