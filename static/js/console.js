// Entry point of every page behind the sign-in.
import "./edit.js";
import "./toasts.js";
import "./rows.js";
import "./views.js";
import "./palette.js";
import "./times.js";
import "./refresh.js";
import "./picking.js";
import "./charts.js";
import "./suggest.js";
import "./announce.js";
import { Live } from "./live.js";
import { listen } from "./keys.js";

const { topic } = document.body.dataset;
listen(topic && document.getElementById("pill") ? new Live(topic) : null);

// An open menu closes by Escape or by a click beside it.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open], .tabbar details[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest("details[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});

// Dialogs: a button opens one, and so does an address that ends in its name.
const opened = (id) => { const dialog = document.getElementById(id); if (dialog?.matches("dialog.stop")) dialog.showModal(); };
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-dialog], [data-close]");
  if (button?.dataset.dialog) opened(button.dataset.dialog);
  else if (button) button.closest("dialog").close();
});
if (location.hash) opened(location.hash.slice(1));
