// Tables become sortable, and those that name a filter get one.
// A row of table.rows has a body of its own, with the row that opens below it.
function rowsOf(table) {
  return table.matches(".rows") ? [...table.tBodies].map((body) => body.rows[0]) : [...table.tBodies[0].rows];
}

function wholeOf(row) {
  return row.closest(".rows") ? row.parentNode : row;
}

function sortable(table) {
  const original = rowsOf(table);
  const parent = wholeOf(original[0]).parentNode;
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
      parent.append(...(order ? sorted(original, column, numeric, order === "ascending") : original).map(wholeOf));
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
  const rows = rowsOf(table);
  const label = table.dataset.filter;
  const input = make("input", { type: "search", placeholder: label, "aria-label": label });
  const count = make("span", { class: "quiet", role: "status" });
  const choices = choicesOf(table, rows);
  let texts = null; // read when one types first: a hidden table need not be read at all
  const update = () => {
    texts = texts || rows.map((row) => wholeOf(row).textContent.toLowerCase());
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = choices.filter((choice) => choice.select.value);
    let shown = 0;
    rows.forEach((row, index) => {
      const fits = words.every((word) => texts[index].includes(word)) &&
        chosen.every((choice) => choice.values[index].includes(choice.select.value));
      wholeOf(row).hidden = !fits;
      shown += fits ? 1 : 0;
    });
    count.textContent = words.length || chosen.length ? shown + " of " + rows.length : "";
  };
  input.addEventListener("input", update);
  for (const choice of choices) choice.select.addEventListener("change", update);
  table.parentNode.before(make("div", { class: "filter" }, input, ...choices.map((choice) => choice.select), count));
}

// One list of what occurs for each column that has few different words or names: verdicts, dtypes, modules.
function choicesOf(table, rows) {
  const found = [];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (head.dataset.choice === undefined) return;
    const title = head.textContent;
    const values = rows.map((row) => [...row.cells[column].querySelectorAll("code, .tag")].map((one) => one.textContent));
    const different = [...new Set(values.flat())].sort();
    if (different.length < 2 || different.length > 500) return;
    const options = different.map((one) => make("option", { value: one }, one));
    const select = make("select", { "aria-label": title }, make("option", { value: "" }, title + ": all"), ...options);
    found.push({ select, values });
  });
  return found;
}

// What has no column stands in a row below, which a button opens.
function opening(table) {
  for (const row of rowsOf(table)) {
    const more = row.nextElementSibling;
    if (!more) continue;
    more.hidden = true;
    const what = row.cells[0].textContent;
    const button = make("button", { type: "button", class: "open", "aria-expanded": "false", "aria-label": "More on " + what });
    button.addEventListener("click", () => {
      more.hidden = !more.hidden;
      button.setAttribute("aria-expanded", String(!more.hidden));
    });
    row.cells[0].prepend(button);
  }
  arranging(table);
}

function arranging(table) {
  if (rowsOf(table).length > 1) sortable(table);
  if (table.dataset.filter && rowsOf(table).length > 5) filtered(table);
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
