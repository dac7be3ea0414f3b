// What several views are made of.
const NUMBERS = new Intl.NumberFormat("en");

function plural(count, singular, several) {
  return NUMBERS.format(count) + " " + (count === 1 ? singular : several || singular + "s");
}

function bytes(count) {
  const units = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
  const [size, unit] = units.find(([size]) => count >= size) || [1, "B"];
  return (count / size).toFixed(1) + " " + unit;
}

function tag(letter) {
  return make("span", { class: "tag v-" + SHADES[letter] }, WORDS[letter]);
}

function link(view, what, text) {
  return make("a", { href: address(view, what) }, make("code", {}, text || what));
}

function modelLink(number) {
  return link("model", index.models[number][0]);
}

function operatorLink(number) {
  return link("operator", index.operators[number]);
}

function separated(nodes) {
  return nodes.flatMap((node, at) => (at ? [", ", node] : [node]));
}

// At most `most` of the nodes, and the others behind a button.
function some(nodes, most = 12) {
  const box = make("span", {}, ...separated(nodes.slice(0, most)));
  if (nodes.length > most) {
    const button = make("button", { type: "button", class: "others" }, "and " + (nodes.length - most) + " more");
    button.addEventListener("click", () => box.replaceChildren(...separated(nodes)));
    box.append(" ", button);
  }
  return box;
}

// A table: its columns are [title, class], its rows lists of cells; the first cell is the row's head.
function tableOf(caption, columns, rows) {
  const heads = columns.map(([title, kind]) => make("th", { scope: "col", class: kind || null }, title));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell, at) =>
    make(at ? "td" : "th", { scope: at ? null : "row", class: columns[at][1] || null }, cell === null ? "" : cell))));
  return make("div", { class: "fit", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { class: "list" }, make("caption", { class: "unseen" }, caption),
      make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body)));
}

function facts(pairs) {
  return make("dl", { class: "facts" }, ...pairs.filter(([, value]) => value !== null && value !== "").map(([title, value]) =>
    make("div", {}, make("dt", {}, title), make("dd", {}, value))));
}

// Neighbours that are alike as one: [first, last, what they are].
function runs(items) {
  const found = [];
  items.forEach((item, at) => {
    const last = found[found.length - 1];
    if (last && last[2] === item) last[1] = at;
    else found.push([at, at, item]);
  });
  return found;
}

function span(first, last, names = index.releases) {
  return first === last ? names[first] : names[last] + " to " + names[first];
}

// What each release does, the newest first, as a line of cells; `said` adds words to a letter.
function strip(letters, said = (letter) => WORDS[letter]) {
  const rows = runs(letters.map((letter, at) => letter + "|" + said(letter, at))).map(([first, last, both]) => {
    const letter = both[0];
    const words = both.slice(2);
    const held = first <= chosen.release && chosen.release <= last;
    return make("li", { class: "v-" + SHADES[letter] + (held ? " held" : ""), style: null },
      make("b", {}, span(first, last)), make("span", {}, words));
  });
  return make("ol", { class: "strip", "aria-label": "Releases, the newest first" }, ...rows);
}

function copied(text, button) {
  const said = (words) => { button.textContent = words; setTimeout(() => { button.textContent = "Copy"; }, 2000); };
  const old = () => {
    const area = make("textarea", { class: "unseen" }, text);
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    said(done ? "Copied" : "Select it and copy");
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => said("Copied"), old);
  else old();
}

// A text to take away: with a button that copies it, and one that saves it.
function takeaway(title, text, file, about) {
  const copy = make("button", { type: "button" }, "Copy");
  copy.addEventListener("click", () => copied(text, copy));
  const save = make("a", { class: "button", download: file, href: "data:text/plain;charset=utf-8," + encodeURIComponent(text) }, "Save " + file);
  return make("div", { class: "block takeaway" }, make("h3", {}, title), make("p", { class: "quiet" }, about),
    make("p", { class: "acts" }, copy, " ", save),
    make("pre", { tabindex: "0", role: "region", "aria-label": title }, make("code", {}, text)));
}

function nothing(words) {
  return make("p", { class: "nothing" }, words);
}
