// Filter the tables, and open the table that a link names. The page can be read without it.
const box = document.querySelector("input[type=search]");
const named = [...document.querySelectorAll("[data-table]")];
box.hidden = false;
box.addEventListener("input", () => {
  const text = box.value.trim().toLowerCase();
  for (const each of named) each.hidden = !each.dataset.table.toLowerCase().includes(text);
});
const open = () => {
  const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (part && part.tagName === "DETAILS") { part.open = true; part.scrollIntoView(); }
};
addEventListener("hashchange", open);
open();
