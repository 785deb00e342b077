// Charts on canvas: lines over time with SLO lines and marks of changed policy, and sparklines. All charts of a page that
// name one address share one reading; under the pointer all of them tell the same moment. Each chart says in words what it
// shows (aria-label) and has a table with the same numbers. Nothing moves by itself: a chart is drawn anew with new data.
import { write } from "./times.js";

const KINDS = {
  age: { scale: "log", tell: age, lines: [["p50", "p50", 1, 0.6], ["p95", "p95", 1.25, 0.75], ["oldest", "oldest", 1.75, 1]], fill: ["p95", "oldest"] },
  flow: { scale: "linear", tell: perSecond, lines: [["arrived", "arriving", 1.25, 0, "text-2"], ["dispatched", "dispatched", 1.75, 1]], behind: ["arrived", "dispatched"] },
  share: { scale: "part", tell: percent, lines: [["target", "target", 1.25, 0, "text"], ["share", "share", 1.75, 1]], fill: ["target", "share"] },
  depth: { scale: "linear", tell: count, lines: [["running", "running", 1.25, 0, "text-2"], ["queued", "queued", 1.75, 1]] },
};
const GRID = [[1, "1 s"], [10, "10 s"], [60, "1 m"], [600, "10 m"], [3600, "1 h"], [86_400, "1 d"]];
const readings = new Map();
let cursor = null;

function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${two(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} m`;
  return `${Math.floor(whole / 86_400)} d ${two(Math.floor(whole / 3600) % 24)} h`;
}
function perSecond(value) { return `${value.toFixed(1)} / s`; }
function percent(value) { return `${(value * 100).toFixed(1)} %`; }
function count(value) { return Math.round(value).toLocaleString("en"); }

// Reading

async function refresh(address) {
  const reading = readings.get(address);
  reading.due = performance.now() + (reading.data?.step_s ?? 10) * 1000;
  try {
    const answer = await fetch(address, { headers: { Accept: "application/json" }, redirect: "manual" });
    if (answer.ok) { reading.data = await answer.json(); totals(reading.data); reading.failed = false; } else reading.failed = true;
  } catch { reading.failed = true; }
  drawAll();
}

// `*`: all classes together; what waits longest anywhere, and the sums.
function totals(data) {
  const all = {};
  for (const one of Object.values(data.classes)) {
    for (const [name, line] of Object.entries(one)) {
      if (!Array.isArray(line)) continue;
      all[name] = line.map((value, place) => {
        const before = all[name]?.[place] ?? null;
        if (value === null || before === null) return value ?? before;
        return name === "oldest" ? Math.max(value, before) : value + before;
      });
    }
  }
  data.classes["*"] = all;
}

function visit() {
  const wanted = new Set([...document.querySelectorAll("[data-series]")].map((element) => element.dataset.series));
  for (const address of wanted) if (!readings.has(address)) readings.set(address, { due: 0, data: null, failed: false });
  const { live } = document.documentElement.dataset;
  if (document.hidden || live === "paused" || live === "stale") return;
  for (const address of wanted) if (performance.now() >= readings.get(address).due) refresh(address);
}

// Drawing

function drawAll() {
  const sheets = [...document.querySelectorAll("canvas[data-series], .plot[data-series] canvas")];
  const tops = new Map();
  for (const canvas of sheets) {
    const host = canvas.closest("[data-series]");
    const reading = readings.get(host.dataset.series);
    if (!reading?.data) { if (reading?.failed) fail(host); continue; }
    const one = reading.data.classes[host.dataset.of] ?? {};
    if (host === canvas) { spark(canvas, one[canvas.dataset.line] ?? [], Number(canvas.dataset.limit) || 0); continue; }
    const kind = KINDS[host.dataset.plot];
    const key = host.dataset.series + host.dataset.plot;
    if (!tops.has(key)) tops.set(key, highest(reading.data, kind, host.dataset.alone ? host.dataset.of : null));
    plot(host, canvas, reading.data, one, kind, tops.get(key));
  }
}

function fail(host) {
  const read = host.querySelector?.(".read");
  if (read) read.textContent = "The samples could not be read.";
}

// Charts of one kind share their scale.
function highest(data, kind, only) {
  let top = 0;
  for (const [name, one] of Object.entries(data.classes)) {
    if (name === "*" || (only && name !== only)) continue;
    for (const [line] of kind.lines) for (const value of one[line] ?? []) if (value > top) top = value;
    if (kind.scale === "log" && one.slo_s > top) top = one.slo_s;
  }
  if (kind.scale === "log") return top > 3600 ? 86_400 : top > 600 ? 3600 : 600;
  if (kind.scale === "part") return [0.25, 0.5, 0.75, 1].find((end) => top <= end) ?? 1;
  const unit = 10 ** Math.floor(Math.log10(Math.max(top, 1)));
  return [1, 2, 5, 10].map((step) => step * unit).find((end) => top <= end) ?? top;
}

function inks(element) {
  const probe = document.createElement("i");
  element.append(probe);
  const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const found = Object.fromEntries(["c", "text", "text-2", "text-3", "line", "breach", "accent", "surface", "watch"].map((name) => [name, read(name)]));
  found.font = `11px ${getComputedStyle(element).fontFamily}`;
  probe.remove();
  return found;
}

function sheet(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const dense = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.lineJoin = "round";
  return { pen, width, height };
}

function plot(host, canvas, data, one, kind, top) {
  const { pen, width, height } = sheet(canvas);
  if (!width) return;
  const ink = inks(host);
  const axis = host.dataset.axis || host.parentElement.matches("[data-list] > :first-child");
  const box = { left: axis ? 40 : 1, right: width - (host.dataset.labels ? 66 : 5), top: 10, bottom: height - 18 };
  const steps = Math.max(2, ...kind.lines.map(([line]) => one[line]?.length ?? 0));
  const start = data.end - steps * data.step_s * 1000;
  const at = (place) => box.left + (box.right - box.left) * place / (steps - 1);
  const up = (value) => box.bottom - (box.bottom - box.top) * (kind.scale === "log" ? Math.log(Math.min(Math.max(value, 1), top)) / Math.log(top) : Math.min(value, top) / top);
  pen.font = ink.font;
  const grid = kind.scale === "log" ? GRID.filter(([value]) => value <= top) : [0, 0.5, 1].map((part) => [part * top, kind.scale === "part" ? `${part * top * 100} %` : String(Number((part * top).toFixed(2)))]);
  stroke(pen, ink.line, 1, [], () => { for (const [value] of grid) { pen.moveTo(box.left, Math.round(up(value)) + 0.5); pen.lineTo(box.right, Math.round(up(value)) + 0.5); } });
  pen.fillStyle = ink["text-3"];
  if (axis) { pen.textAlign = "right"; for (const [value, word] of grid) pen.fillText(word, box.left - 6, up(value) + 4); }
  pen.textAlign = "left";
  pen.fillText(write(start, "minute"), box.left, height - 4);
  pen.textAlign = "right";
  pen.fillText(write(data.end, "minute"), box.right, height - 4);
  if (kind.fill) between(pen, one[kind.fill[0]], one[kind.fill[1]], at, up, ink.c, false);
  if (kind.behind) between(pen, one[kind.behind[0]], one[kind.behind[1]], at, up, ink.watch, true);
  if (kind.scale === "log" && one.slo_s) {
    stroke(pen, ink["text-2"], 1, [3, 2], () => { pen.moveTo(box.left, up(one.slo_s)); pen.lineTo(box.right, up(one.slo_s)); });
    pen.textAlign = "left";
    pen.fillStyle = ink["text-2"];
    pen.fillText(`SLO ${age(one.slo_s).replace(/ 00 [smh]/, "")}`, box.left + 3, up(one.slo_s) - 4);
  }
  marks(pen, data, start, box, ink);
  const ends = [];
  for (const [name, word, thick, alpha, colour] of kind.lines) {
    const line = one[name];
    if (!line?.some((value) => value !== null)) continue;
    pen.globalAlpha = alpha || 1;
    draw(pen, line, at, up, colour ? ink[colour] : ink.c, thick);
    if (kind.scale === "log" && name === "oldest" && one.slo_s) draw(pen, line.map((value) => (value > one.slo_s ? value : null)), at, up, ink.breach, 2.25);
    pen.globalAlpha = 1;
    const last = line.findLastIndex((value) => value !== null);
    if (last >= steps - 6) ends.push([up(line[last]), word, colour ? ink[colour] : ink.c, at(last)]);
  }
  if (host.dataset.labels) labels(pen, ends, box, ink);
  const known = kind.lines.some(([name]) => one[name]?.some((value) => value !== null));
  if (!known) { pen.textAlign = "center"; pen.fillStyle = ink["text-3"]; pen.fillText("nothing in this time", (box.left + box.right) / 2, (box.top + box.bottom) / 2); }
  tell(host, canvas, data, one, kind, { start, steps, at, box, pen, ink, known });
}

function stroke(pen, colour, width, dash, path) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  path();
  pen.stroke();
  pen.setLineDash([]);
}

// A line with gaps where a value is missing; a value that stands alone is a dot.
function draw(pen, line, at, up, colour, width) {
  stroke(pen, colour, width, [], () => {
    for (const [place, value] of line.entries()) {
      if (value === null) continue;
      if (place > 0 && line[place - 1] !== null) pen.lineTo(at(place), up(value));
      else { pen.moveTo(at(place) - 0.7, up(value)); pen.lineTo(at(place), up(value)); }
    }
  });
}

function between(pen, low, high, at, up, colour, onlyAbove) {
  if (!low || !high) return;
  pen.fillStyle = colour;
  pen.globalAlpha = 0.16;
  for (let place = 1; place < low.length; place++) {
    const corners = [low[place - 1], low[place], high[place], high[place - 1]];
    if (corners.includes(null) || corners.includes(undefined) || (onlyAbove && corners[1] <= corners[2])) continue;
    pen.beginPath();
    pen.moveTo(at(place - 1), up(corners[0]));
    pen.lineTo(at(place), up(corners[1]));
    pen.lineTo(at(place), up(corners[2]));
    pen.lineTo(at(place - 1), up(corners[3]));
    pen.fill();
  }
  pen.globalAlpha = 1;
}

function marks(pen, data, start, box, ink) {
  for (const mark of data.marks) {
    if (mark.at < start || mark.at > data.end) continue;
    const x = box.left + (box.right - box.left) * (mark.at - start) / (data.end - start);
    stroke(pen, ink.accent, 1, [], () => { pen.moveTo(x, box.top - 4); pen.lineTo(x, box.bottom); });
    pen.fillStyle = ink.accent;
    pen.beginPath();
    pen.moveTo(x - 4, box.top - 8);
    pen.lineTo(x + 4, box.top - 8);
    pen.lineTo(x, box.top - 2);
    pen.fill();
  }
}

function labels(pen, ends, box, ink) {
  pen.textAlign = "left";
  let above = Infinity;
  for (const [y, word, colour, x] of ends.sort((a, b) => b[0] - a[0])) {
    const line = Math.min(y + 4, above - 12);
    above = line;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, 2.5, 0, 7);
    pen.fill();
    pen.fillStyle = ink["text-2"];
    pen.fillText(word, box.right + 8, line);
  }
}

function spark(canvas, line, limit) {
  const { pen, width, height } = sheet(canvas);
  const values = line.filter((value) => value !== null);
  if (!width || !values.length) return;
  const ink = inks(canvas.parentElement);
  const top = Math.max(limit, ...values) || 1;
  const at = (place) => 1 + (width - 5) * place / Math.max(1, line.length - 1);
  const up = (value) => height - 3 - (height - 6) * value / top;
  if (limit) stroke(pen, ink["text-3"], 1, [2, 2], () => { pen.moveTo(0, up(limit)); pen.lineTo(width, up(limit)); });
  const last = line.findLastIndex((value) => value !== null);
  const colour = limit && line[last] > limit ? ink.breach : ink["text-2"];
  draw(pen, line, at, up, colour, 1.5);
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(at(last), up(line[last]), 2.5, 0, 7);
  pen.fill();
}

// Words, table, pointer

function tell(host, canvas, data, one, kind, drawn) {
  const { start, steps, at, box, pen, ink, known } = drawn;
  const parts = kind.lines.flatMap(([name, word]) => {
    const values = (one[name] ?? []).filter((value) => value !== null);
    return values.length ? [`${word} now ${kind.tell(values.at(-1))}, highest ${kind.tell(Math.max(...values))}`] : [];
  });
  const changes = data.marks.filter((mark) => mark.at >= start).length;
  const label = `${host.dataset.name}, last ${age(steps * data.step_s).replace(/ 00 [smh]/, "")}: ${known ? parts.join("; ") : "nothing in this time"}`
    + `${kind.scale === "log" && one.slo_s ? `; SLO ${age(one.slo_s)}` : ""}${changes ? `; ${changes} changes of the policy` : ""}`;
  if (canvas.getAttribute("aria-label") !== label) canvas.setAttribute("aria-label", label);
  canvas.place = { start, steps, at, box, step: data.step_s * 1000 };
  const read = host.querySelector(".read");
  if (read) read.textContent = cursor === null ? "" : pointed(data, one, kind, start, steps);
  if (cursor !== null) {
    const place = Math.round((cursor - start) / (data.step_s * 1000));
    if (place >= 0 && place < steps) stroke(pen, ink["text-3"], 1, [], () => { pen.moveTo(at(place), box.top); pen.lineTo(at(place), box.bottom); });
  }
  if (host.querySelector("details[open]")) table(host, data, one, kind, start, steps);
}

function pointed(data, one, kind, start, steps) {
  const place = Math.min(steps - 1, Math.max(0, Math.round((cursor - start) / (data.step_s * 1000))));
  const mark = data.marks.find((change) => Math.abs(change.at - cursor) < data.step_s * 1500);
  const values = kind.lines.filter(([name]) => one[name]?.[place] != null).map(([name, word]) => `${word} ${kind.tell(one[name][place])}`);
  return [write(start + place * data.step_s * 1000), ...values, ...(mark ? [mark.text] : [])].join(" · ");
}

function table(host, data, one, kind, start, steps) {
  const body = host.querySelector("tbody");
  const lines = kind.lines.filter(([name]) => one[name]);
  const row = (cells, tag) => {
    const line = document.createElement("tr");
    for (const [place, text] of cells.entries()) {
      const cell = document.createElement(place === 0 || tag === "th" ? "th" : "td");
      if (cell.tagName === "TH") cell.scope = tag === "th" ? "col" : "row";
      cell.className = place ? "num" : "";
      cell.textContent = text;
      line.append(cell);
    }
    return line;
  };
  host.querySelector("thead").replaceChildren(row(["Time", ...lines.map(([, word]) => word)], "th"));
  const places = [...Array(steps).keys()].reverse();
  body.replaceChildren(...places.map((place) => row([write(start + place * data.step_s * 1000), ...lines.map(([name]) => (one[name][place] === null ? "–" : kind.tell(one[name][place])))], "td")));
}

document.addEventListener("pointermove", (event) => {
  const canvas = event.target.closest?.(".plot canvas");
  const place = canvas?.place;
  const next = place ? place.start + (event.offsetX - place.at(0)) / (place.at(place.steps - 1) - place.at(0)) * (place.steps - 1) * place.step : null;
  if (next === cursor) return;
  cursor = next;
  requestAnimationFrame(drawAll);
});
document.addEventListener("toggle", (event) => { if (event.target.closest?.(".plot")) drawAll(); }, true);
document.addEventListener("click", (event) => { if (event.target.closest?.("[data-theme-next]")) requestAnimationFrame(drawAll); });
document.addEventListener("zone", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("resize", () => requestAnimationFrame(drawAll));
if (document.querySelector("[data-series]")) { visit(); setInterval(visit, 1000); }
