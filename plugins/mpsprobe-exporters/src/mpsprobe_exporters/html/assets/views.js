// One view at a time and one configuration at a time. The address keeps both: #operators/3
const views = [...document.querySelectorAll("section.view")];
const links = [...document.querySelectorAll("nav a[data-view]")];
const chooser = document.getElementById("cell");
const made = new WeakSet();
let cell = chooser ? chooser.value : "0";

function show(name) {
  const current = views.find((view) => view.id === name) || views[0];
  for (const view of views) view.classList.toggle("current", view === current);
  for (const link of links) {
    if (link.dataset.view === current.id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.querySelector(".opening").classList.toggle("short", current !== views[0]);
  choose(current);
  enliven(current);
}

// Makes what is seen sortable, foldable and so on, once: what nobody looks at costs no time.
function enliven(view) {
  const kinds = [["table.data:not(.tree)", arranging], ["table.rows", opening], ["table.tree", folding],
    ["svg[data-tips]", tipping], [".timeline", timeline], [".scroll, .fit", fitting]];
  for (const [selector, act] of kinds) {
    for (const found of view.querySelectorAll(selector)) {
      if (made.has(found) || found.closest("[data-cell][hidden]")) continue;
      made.add(found);
      act(found);
    }
  }
}

// Shows the chosen configuration's block of a view, or the sentence that there is none.
function choose(view) {
  let any = false;
  for (const block of view.children) {
    if (block.dataset.cell === undefined) continue;
    block.hidden = block.dataset.cell !== cell;
    if (block.tagName === "DETAILS") block.open = !block.hidden;
    any = any || !block.hidden;
  }
  const nothing = view.querySelector(":scope > .nothing");
  if (nothing) nothing.hidden = any;
}

function follow() {
  const [name, chosen] = location.hash.slice(1).split("/");
  if (chosen !== undefined && chooser && [...chooser.options].some((one) => one.value === chosen)) {
    cell = chooser.value = chosen;
  }
  show(name);
}

function go(name) {
  const hash = "#" + name + (chooser ? "/" + cell : "");
  if (location.hash === hash) follow();
  else location.hash = hash;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-view], a[data-cell]");
  if (!link || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  if (link.dataset.cell !== undefined && chooser) cell = chooser.value = link.dataset.cell;
  go(link.getAttribute("href").slice(1));
  scrollTo(0, 0);
});
if (chooser) {
  chooser.closest("label").hidden = false;
  chooser.addEventListener("change", () => {
    cell = chooser.value;
    const current = views.find((view) => view.classList.contains("current"));
    go(current === views[0] && views.length > 1 ? views[1].id : current.id);
  });
}

addEventListener("beforeprint", () => views.forEach((view) => { choose(view); enliven(view); }));
addEventListener("hashchange", follow);
follow();
