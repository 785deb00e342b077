// Times in UTC, or in the person's zone (data-home, from the account), else the browser's: every <time data-t> says how it is written, its `datetime` what it is.
const root = document.documentElement;
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");

const read = () => { try { return localStorage.getItem("zone"); } catch { return null; } };
const { home } = root.dataset;
let local = (read() ?? (home ? "local" : "utc")) === "local";

const zoneName = (date) => local
  ? new Intl.DateTimeFormat("en-GB", { timeZoneName: "short", timeZone: home }).formatToParts(date).find((part) => part.type === "timeZoneName").value
  : "UTC";

// The moment whose UTC parts are the parts of this one in the zone.
function shifted(date) {
  if (home) return new Date(`${date.toLocaleString("sv-SE", { timeZone: home }).replace(" ", "T")}Z`);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
}

function parts(date) {
  const at = local ? shifted(date) : date;
  return {
    day: `${two(at.getUTCDate())} ${MONTHS[at.getUTCMonth()]}`,
    week: DAYS[at.getUTCDay()],
    year: at.getUTCFullYear(),
    minute: `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`,
    clock: at.toISOString().slice(11, 19),
  };
}

// `clock` 14:32:08 · `zoned` 14:32:08 UTC · `stamp` Mon 30 Nov 2026, 14:32:08 UTC · `moment` the clock today, else with its day
export function write(value, style = "clock") {
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return "–";
  const at = parts(date);
  if (style === "minute") return at.minute;
  if (style === "zoned") return `${at.clock} ${zoneName(date)}`;
  if (style === "stamp") return `${at.week} ${at.day} ${at.year}, ${at.clock} ${zoneName(date)}`;
  if (style === "moment" && at.day !== parts(new Date()).day) return `${at.day} ${at.minute}`;
  return at.clock;
}

// Writes one element anew; `value` is an ISO time or milliseconds.
export function put(element, value) {
  if (value === undefined || value === null || value === "") { element.removeAttribute("datetime"); set(element, "–"); return; }
  const iso = new Date(value).toISOString();
  if (element.dateTime !== iso) element.dateTime = iso;
  set(element, write(iso, element.dataset.t));
  if (element.hasAttribute("title")) element.title = write(iso, "stamp");
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function all(within = document) {
  for (const element of within.querySelectorAll("time[data-t][datetime]")) put(element, element.dateTime);
  for (const button of document.querySelectorAll("button[data-zone]")) {
    button.setAttribute("aria-pressed", String(local));
    set(button.querySelector("[data-zone-word]"), local ? zoneName(new Date()) : "UTC");
  }
}

export function toggle() {
  local = !local;
  try { localStorage.setItem("zone", local ? "local" : "utc"); } catch { /* kept for this page */ }
  root.dataset.zone = local ? "local" : "utc";
  all();
  document.dispatchEvent(new Event("zone"));
}

root.dataset.zone = local ? "local" : "utc";
if (local) all();
document.addEventListener("htmx:afterSwap", (event) => { if (local) all(event.target); });
document.addEventListener("click", (event) => { if (event.target.closest?.("button[data-zone]")) toggle(); });
