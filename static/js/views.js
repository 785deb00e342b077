// The switchers of tenant and pool: a choice is a new address, with everything else in it kept but the place in a list.
document.addEventListener("change", (event) => {
  const box = event.target.closest?.("select[data-view]");
  if (!box) return;
  const address = new URL(location.href);
  if (box.value) address.searchParams.set(box.name, box.value); else address.searchParams.delete(box.name);
  address.searchParams.delete("after");
  location.assign(address);
});
