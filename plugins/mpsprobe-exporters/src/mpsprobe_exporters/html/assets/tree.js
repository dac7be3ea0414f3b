// The tree of modules: rows know their level; a row with deeper ones below it opens and closes.
function folding(table) {
  const rows = [...table.tBodies[0].rows];
  const level = rows.map((row) => Number(row.dataset.level));
  const isOpen = rows.map((row, index) => level[index] < Number(table.dataset.open));
  const inner = rows.map((row, index) => index + 1 < rows.length && level[index + 1] > level[index]);
  const twists = rows.map((row, index) => (inner[index] ? twist(row, index) : null));

  function twist(row, index) {
    const name = row.cells[0].textContent;
    const button = make("button", { type: "button", class: "twist", "aria-label": "Parts of " + name });
    button.addEventListener("click", () => { isOpen[index] = !isOpen[index]; show(); });
    row.cells[0].prepend(button);
    return button;
  }

  function show() {
    let hiddenBelow = Infinity; // everything deeper than this level is inside a closed row
    rows.forEach((row, index) => {
      if (level[index] <= hiddenBelow) hiddenBelow = Infinity;
      row.hidden = level[index] > hiddenBelow;
      if (!row.hidden && inner[index] && !isOpen[index]) hiddenBelow = level[index];
      if (twists[index]) {
        twists[index].textContent = isOpen[index] ? "\u25be" : "\u25b8";
        twists[index].setAttribute("aria-expanded", String(isOpen[index]));
      }
    });
  }

  const all = make("button", { type: "button" }, "Open all");
  const none = make("button", { type: "button" }, "Close all");
  const input = make("input", { type: "search", placeholder: "Find modules", "aria-label": "Find modules" });
  all.addEventListener("click", () => { isOpen.fill(true); show(); });
  none.addEventListener("click", () => { isOpen.fill(false); show(); });
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    if (!wanted) return show();
    const above = []; // the rows on the way from the model to this one
    const keep = rows.map(() => false);
    rows.forEach((row, index) => {
      above.length = level[index];
      above[level[index]] = index;
      if (row.textContent.toLowerCase().includes(wanted)) above.forEach((one) => { keep[one] = true; });
    });
    rows.forEach((row, index) => { row.hidden = !keep[index]; });
  });
  if (inner.some(Boolean)) table.closest(".scroll").before(make("div", { class: "filter" }, input, all, none));
  show();
}
