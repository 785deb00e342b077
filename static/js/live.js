// The live connection of a page: a websocket with numbered changes, polling while there is none, and the pill.
import { Cells } from "./cells.js";
import { Pill } from "./pill.js";
import * as clock from "./clock.js";
import { write } from "./times.js";

const STALE_MS = 6000; // older numbers are greyed out
const SILENT_MS = 4000; // the server sends at least once a second; after this the socket counts as dead
const POLL_MS = 5000;
const SPOKEN_MS = 15_000;

export class Live {
  constructor(topic) {
    this.topic = topic;
    const { pool, tenant } = document.body.dataset;
    this.view = Object.entries({ pool, tenant }).filter(([, value]) => value).map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join("");
    this.cells = new Cells();
    this.pill = new Pill(document.getElementById("pill"), () => this.act());
    this.seq = null;
    this.tries = 0;
    this.paused = false;
    this.at = Number(document.body.dataset.seqAt) || Date.now();
    this.heard = performance.now();
    clock.hear(this.at);
    setInterval(() => this.beat(), 1000);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.resync(); });
    this.connect();
    clock.tick();
  }

  get open() {
    return this.socket !== null && this.socket.readyState === 1;
  }

  connect() {
    clearTimeout(this.timer);
    this.retryAt = null;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws/live?topic=${encodeURIComponent(this.topic)}${this.view}`);
    this.socket = socket;
    this.silent = performance.now();
    socket.onmessage = (event) => this.take(JSON.parse(event.data));
    socket.onclose = () => { if (socket === this.socket) this.later(); };
  }

  // Try again after 0.5, 1, 2, … 15 s, spread by half so that a fleet of browsers does not come back at once.
  later() {
    this.socket = null;
    this.pollAt ??= performance.now() + 1000;
    const wait = Math.min(15_000, 500 * 2 ** this.tries++) * (0.75 + Math.random() / 2);
    this.retryAt = performance.now() + wait;
    this.timer = setTimeout(() => this.connect(), wait);
    this.show();
  }

  take(message) {
    this.silent = performance.now();
    this.tries = 0;
    this.polled = false;
    this.pollAt = null;
    clock.hear(message.now);
    if (message.full) this.seq = message.seq;
    else if (this.seq === null || message.seq !== this.seq + 1) return this.resync();
    else this.seq = message.seq;
    this.put(message);
  }

  put(message) {
    if (this.paused || document.hidden) { this.missed = true; return; }
    this.at = message.at;
    this.heard = performance.now();
    this.cells.apply(message.changes, Boolean(message.full));
    document.dispatchEvent(new CustomEvent("cells", { detail: message.changes }));
    clock.tick();
    this.lag = Math.max(0, clock.now() - message.at);
    this.show();
  }

  resync() {
    this.missed = false;
    if (this.open) this.socket.send(JSON.stringify({ type: "resync" }));
  }

  async poll() {
    this.pollAt = performance.now() + POLL_MS;
    try {
      const answer = await fetch(`/live/${encodeURIComponent(this.topic)}.json?${this.view}`, { headers: { Accept: "application/json" }, redirect: "manual" });
      if (answer.type === "opaqueredirect" || answer.status === 401) { location.reload(); return; }
      if (!answer.ok || this.open) return;
      this.polled = true;
      this.put(await answer.json());
    } catch { /* the server is away: the pill says so and the next try comes by itself */ }
  }

  beat() {
    const at = performance.now();
    if (this.socket && at - this.silent > SILENT_MS) { const dead = this.socket; this.later(); dead.close(); }
    if (!this.socket && !document.hidden && at > this.pollAt) this.poll();
    if (!this.paused && document.documentElement.dataset.live !== "stale") clock.tick();
    this.show();
    this.speak(at);
  }

  show() {
    const age = performance.now() - this.heard;
    if (this.paused) this.pill.show("paused", `at ${write(this.at)}`);
    else if (this.open && this.seq !== null && age < STALE_MS) this.pill.show("live", `· ${((this.lag ?? 0) / 1000).toFixed(1)} s lag`);
    else if (this.polled && age < POLL_MS + STALE_MS) this.pill.show("live", "· every 5 s");
    else if (age >= STALE_MS) this.pill.show("stale", `since ${write(this.at)}`);
    else if (this.retryAt) this.pill.show("waiting", `in ${Math.max(0, Math.ceil((this.retryAt - performance.now()) / 1000))} s`);
  }

  act() {
    if (this.paused || this.pill.element.dataset.pill === "live") this.toggle();
    else if (this.socket === null) { this.tries = 0; this.connect(); this.poll(); }
  }

  toggle() {
    this.paused = !this.paused;
    if (!this.paused) { this.heard = performance.now(); this.resync(); if (!this.socket) this.poll(); }
    this.show();
  }

  // Counts are spoken politely, at most every 15 s, and only when they changed.
  speak(at) {
    const text = this.cells.values.get("spoken");
    const line = document.getElementById("spoken");
    if (this.paused || !text || at < (this.spokeAt ?? 0) + SPOKEN_MS || line.textContent === text) return;
    this.spokeAt = at;
    line.textContent = text;
  }
}
