// Rows that are done with: after an accepted command on a `data-once` form its row says so and steps back.
document.addEventListener("done", (event) => {
  const form = event.target.closest?.("form[data-once]");
  if (!form) return;
  const button = form.querySelector("button");
  button.disabled = true;
  button.textContent = "Requeued";
  form.closest("tr")?.setAttribute("data-gone", "");
});
