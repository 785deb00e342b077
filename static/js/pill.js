// The connection pill: what the numbers are worth right now, with its one action.
const sprite = document.documentElement.dataset.icons;
const LOOKS = {
  live: { word: "Live", action: "Pause", act: "pause" },
  paused: { icon: "pause", word: "Paused", action: "Resume", act: "play" },
  waiting: { icon: "retry", word: "Reconnecting", action: "Now", act: "retry" },
  stale: { icon: "watch", word: "Stale", action: "Retry", act: "retry" },
};

export class Pill {
  constructor(element, onAction) {
    this.element = element;
    this.button = element.querySelector("button");
    this.button.addEventListener("click", onAction);
    [this.state] = element.children;
  }

  show(look, detail) {
    const { icon, word, action, act } = LOOKS[look];
    const [symbol, dot, name, note] = this.state.children;
    if (this.element.dataset.pill !== look) {
      this.element.dataset.pill = look;
      document.documentElement.dataset.live = look;
      symbol.toggleAttribute("hidden", !icon);
      dot.toggleAttribute("hidden", Boolean(icon));
      if (icon) symbol.firstElementChild.setAttribute("href", `${sprite}#${icon}`);
      name.textContent = word;
      this.button.hidden = false;
      this.button.firstElementChild.firstElementChild.setAttribute("href", `${sprite}#${act}`);
      this.button.lastElementChild.textContent = action;
      this.button.setAttribute("aria-label", act === "retry" ? `${action}: connect again` : `${action} updates`);
    }
    if (note.textContent !== detail) note.textContent = detail;
  }
}
