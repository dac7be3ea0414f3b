// Tables become sortable, and those that name a filter get one.
function sortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const title = head.textContent;
    const button = make("button", { type: "button" }, title);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("n");
      const before = head.getAttribute("aria-sort");
      const first = numeric ? "descending" : "ascending";
      const second = numeric ? "ascending" : "descending";
      const order = before === first ? second : before === second ? null : first;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (order) head.setAttribute("aria-sort", order);
      body.append(...(order ? sorted(original, column, numeric, order === "ascending") : original));
    });
  });
}

function sorted(rows, column, numeric, upwards) {
  const keys = new Map(rows.map((row) => [row, numeric ? valueOf(row.cells[column]) : row.cells[column].textContent]));
  const names = new Intl.Collator("en", { numeric: true });
  return [...rows].sort((one, other) => {
    const a = keys.get(one), b = keys.get(other);
    if (a === b) return 0;
    if (a === null || a === "") return 1; // what is not known stays last
    if (b === null || b === "") return -1;
    const order = numeric ? a - b : names.compare(a, b);
    return upwards ? order : -order;
  });
}

function valueOf(cell) {
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
}

function filtered(table) {
  const rows = [...table.tBodies[0].rows];
  const label = table.dataset.filter;
  const input = make("input", { type: "search", placeholder: label, "aria-label": label });
  const count = make("span", { class: "quiet", role: "status" });
  let texts = null; // read when one types first: a hidden table need not be read at all
  input.addEventListener("input", () => {
    texts = texts || rows.map((row) => row.textContent.toLowerCase());
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !words.every((word) => texts[index].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = words.length ? shown + " of " + rows.length : "";
  });
  table.closest(".scroll").before(make("div", { class: "filter" }, input, count));
}

function arranging(table) {
  if (table.tBodies[0].rows.length > 1) sortable(table);
  if (table.dataset.filter && table.tBodies[0].rows.length > 5) filtered(table);
}

// A table that has room needs no box to scroll in: then its heads stay in sight while the page scrolls, and Tab passes by.
function fitting(box) {
  const table = box.querySelector("table");
  new ResizeObserver(() => {
    const fits = table.offsetWidth <= box.clientWidth;
    box.classList.toggle("fits", fits);
    box.setAttribute("tabindex", fits ? "-1" : "0");
  }).observe(box);
}
