// Tables become sortable; those that name a filter get one; rows with more to say open.
const COLLATOR = new Intl.Collator("en", { numeric: true });
const MOST_CHOICES = 200;

// The rows of a table, each with the one below it that says more, where there is one.
function entriesOf(table) {
  return [...table.querySelectorAll("tbody > tr:not(.more)")].map((row) => {
    const next = row.nextElementSibling;
    return { row, more: next && next.classList.contains("more") ? next : null, open: false, out: false };
  });
}

function sortable(table, entries) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const title = head.textContent;
    const button = make("button", { type: "button" }, title);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("n");
      const before = head.getAttribute("aria-sort");
      const first = numeric ? "descending" : "ascending";
      const second = numeric ? "ascending" : "descending";
      const order = before === first ? second : before === second ? null : first;
      for (const other of heads) other.removeAttribute("aria-sort");
      if (order) head.setAttribute("aria-sort", order);
      const placed = order ? sorted(entries, column, numeric, order === "ascending") : entries;
      if (table.tBodies.length > 1) table.append(...placed.map(({ row }) => row.parentNode));
      else table.tBodies[0].append(...placed.flatMap(({ row, more }) => (more ? [row, more] : [row])));
    });
  });
}

function sorted(entries, column, numeric, upwards) {
  const keyOf = ({ row }) => (numeric ? valueOf(row.cells[column]) : row.cells[column].textContent);
  const keys = new Map(entries.map((entry) => [entry, keyOf(entry)]));
  return [...entries].sort((one, other) => {
    const a = keys.get(one), b = keys.get(other);
    if (a === b) return 0;
    if (a === null || a === "") return 1; // what is not known stays last
    if (b === null || b === "") return -1;
    const order = numeric ? a - b : COLLATOR.compare(a, b);
    return upwards ? order : -order;
  });
}

function valueOf(cell) {
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
}

// The row below is closed at first; a button in the first cell, and a click anywhere else on the row, open it.
function opening(entry) {
  const name = entry.row.cells[0].textContent;
  const button = make("button", { type: "button", class: "twist", "aria-label": "More of " + name });
  const turn = () => { entry.open = !entry.open; settle(entry); };
  button.addEventListener("click", turn);
  entry.turned = () => {
    button.textContent = entry.open ? "\u25be" : "\u25b8";
    button.setAttribute("aria-expanded", String(entry.open));
  };
  entry.row.cells[0].prepend(button);
  entry.row.addEventListener("click", (event) => {
    if (!event.target.closest("button, a, details, summary") && String(getSelection()) === "") turn();
  });
  settle(entry);
}

function settle(entry) {
  entry.row.hidden = entry.out;
  if (!entry.more) return;
  entry.more.hidden = entry.out || !entry.open;
  entry.turned();
}

// A field for words, and a list for each column that has a few things to choose from.
function filtered(table, entries) {
  const label = table.dataset.filter;
  const input = make("input", { type: "search", placeholder: label, "aria-label": label });
  const count = make("span", { class: "quiet", role: "status" });
  const lists = [...table.tHead.rows[0].cells].map((head, column) => choosing(head, column, entries)).filter(Boolean);
  let texts = null; // read when one types first: a hidden table need not be read at all
  const act = () => {
    texts = texts || entries.map(({ row, more }) => (row.textContent + (more ? " " + more.textContent : "")).toLowerCase());
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    entries.forEach((entry, index) => {
      entry.out = !words.every((word) => texts[index].includes(word)) || !lists.every(({ fits }) => fits(entry));
      shown += entry.out ? 0 : 1;
      settle(entry);
    });
    count.textContent = shown < entries.length ? shown + " of " + entries.length : "";
  };
  input.addEventListener("input", act);
  for (const { list } of lists) list.addEventListener("change", act);
  table.parentNode.before(make("div", { class: "filter" }, input, ...lists.map(({ list }) => list), count));
}

function choosing(head, column, entries) {
  if (head.dataset.choice === undefined) return null;
  const thingsOf = ({ row }) => [...row.cells[column].querySelectorAll("code, .tag")].map((one) => one.textContent);
  const found = [...new Set(entries.flatMap(thingsOf))].sort(COLLATOR.compare);
  if (found.length < 2 || found.length > MOST_CHOICES) return null;
  const title = head.textContent;
  const list = make("select", { "aria-label": title }, make("option", { value: "" }, title + ": all"));
  for (const one of found) list.append(make("option", { value: one }, one));
  return { list, fits: (entry) => list.value === "" || thingsOf(entry).includes(list.value) };
}

function arranging(table) {
  const entries = entriesOf(table);
  if (table.dataset.filter && entries.length > 5) filtered(table, entries);
  if (entries.length > 1) sortable(table, entries);
  for (const entry of entries) if (entry.more) opening(entry);
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
