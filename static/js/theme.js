// Theme: as the system, light or dark. A plain script in <head>, so that the page is never painted in the wrong one.
(() => {
  const order = ["system", "light", "dark"];
  const words = { system: "as the system", light: "light", dark: "dark" };
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem("theme") ?? "system"; } catch { return "system"; } };
  const apply = (theme) => { if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme; };
  let theme = order.includes(read()) ? read() : "system";
  apply(theme);
  const label = () => {
    for (const button of document.querySelectorAll("[data-theme-next]")) {
      const word = button.querySelector("[data-theme-word]");
      const text = `Theme: ${words[theme]}`;
      if (word) word.textContent = text; else button.setAttribute("aria-label", text);
    }
  };
  document.addEventListener("DOMContentLoaded", label);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-next]")) return;
    theme = order[(order.indexOf(theme) + 1) % order.length];
    try { localStorage.setItem("theme", theme); } catch { /* private windows keep it for this page only */ }
    apply(theme);
    label();
  });
})();
