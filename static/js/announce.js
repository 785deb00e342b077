// Alerts are announced once: the newest firing one, when it is newer than the newest that this window has told of.
import { toast } from "./toasts.js";

const read = () => { try { return Number(sessionStorage.getItem("alert") ?? -1); } catch { return -1; } };
const keep = (id) => { try { sessionStorage.setItem("alert", id); } catch { /* told again on the next page */ } };
let text = "";

document.addEventListener("cells", ({ detail }) => {
  if (detail["alerts.text"]) text = detail["alerts.text"];
  const id = detail["alerts.newest"];
  if (id === undefined || id === null) return;
  const told = read();
  if (id <= told) return;
  keep(id);
  if (told >= 0 && text) toast(text, "breach", { href: "/alerts", word: "Open" });
});
