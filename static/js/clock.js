// The server's time as this browser sees it, and everything that counts down by it.
// Of the differences seen lately the smallest is the truest: it had the shortest way.
const seen = [];

export function hear(serverMs) {
  seen.push(Date.now() - serverMs);
  if (seen.length > 30) seen.shift();
}

export const now = () => Date.now() - (seen.length ? Math.min(...seen) : 0);
export const known = () => seen.length > 0;

const digits = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;

// Rings and digits step once a second; above 40 % of the TTL they are calm, in the last 10 % they alarm.
export function tick() {
  const at = now();
  for (const ring of document.querySelectorAll(".ring")) {
    const until = Number(ring.dataset.until);
    const ttl = Number(ring.dataset.ttl) * 1000;
    const part = until && ttl ? Math.max(0, Math.min(1, (until - at) / ttl)) : 0;
    const state = !until ? "none" : part === 0 ? "gone" : part < 0.1 ? "breach" : part < 0.4 ? "watch" : "calm";
    if (ring.dataset.left !== state) ring.dataset.left = state;
    ring.querySelector(".arc").setAttribute("stroke-dasharray", `${(part * 100).toFixed(1)} 100`);
  }
  for (const element of document.querySelectorAll("[data-b^='data-count']")) {
    const until = Number(element.dataset.count);
    const text = until ? digits(Math.max(0, Math.ceil((until - at) / 1000))) : "";
    if (element.textContent !== text) element.textContent = text;
  }
}
