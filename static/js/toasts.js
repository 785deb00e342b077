// Toasts: one line, six seconds; errors stay until closed. Also turns the answers of htmx commands into them.
const sprite = document.documentElement.dataset.icons;

// One icon of the sprite.
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${sprite}#${name}`);
  svg.append(use);
  return svg;
}

export function toast(text, tone = "ok", link = null) {
  const line = document.createElement("p");
  line.className = "toast";
  line.dataset.tone = tone;
  if (tone === "breach") line.setAttribute("role", "alert");
  const words = document.createElement("span");
  words.className = "grow";
  words.textContent = text;
  line.append(icon(tone), words);
  if (link) {
    const follow = document.createElement("a");
    follow.href = link.href;
    follow.textContent = link.word;
    line.append(follow);
  }
  const close = document.createElement("button");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  close.append(icon("close"));
  close.addEventListener("click", () => line.remove());
  line.append(close);
  document.getElementById("toasts").append(line);
  if (tone !== "breach") setTimeout(() => { if (!line.matches(":hover, :focus-within")) line.remove(); }, 6000);
}

document.addEventListener("done", (event) => toast(event.detail.text, "ok", event.detail.link));
document.addEventListener("refused", (event) => {
  if (!event.target.closest("form[data-edit]")) toast(event.detail.text, "breach");
});
document.addEventListener("htmx:sendError", () => toast("Not done: the server did not answer.", "breach"));
document.addEventListener("htmx:responseError", (event) => {
  const { xhr } = event.detail;
  if (!xhr.getResponseHeader("HX-Trigger")) toast(`Not done: the server answered ${xhr.status}. Reload and try again.`, "breach");
});
for (const line of document.querySelectorAll("#toasts > [data-tone='ok']")) setTimeout(() => line.remove(), 6000);
