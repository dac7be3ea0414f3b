// Every model on every release: a cell for each run of releases that do the same, the newest on the left.
const ORDERS = {
  "the longest blocked first": (states) => -[...states].filter((letter) => BLOCKING.includes(letter)).length,
  "blocked on the newest first": (states) => "umfksx-n".indexOf(states[0]),
  "by name": () => 0,
};
let order = Object.keys(ORDERS)[0];
let mapped = "";

// The releases on which any model does something else than on the next one: the others share a column.
function columnsOf(all) {
  const found = [[0, 0]];
  for (let at = 1; at < index.releases.length; at++) {
    if (all.every((states) => states[at] === states[at - 1])) found[found.length - 1][1] = at;
    else found.push([at, at]);
  }
  return found;
}

function mapTable(numbers, columns) {
  const heads = columns.map(([first, last]) => make("th", { scope: "col", class: "turned" + (first <= chosen.release && chosen.release <= last ? " held" : "") },
    make("span", {}, span(first, last).replace(" to ", "\u2013"))));
  const rows = numbers.map((number) => {
    const states = index.models[number][3][chosen.setting];
    const cells = runs(columns.map(([first]) => states[first])).map(([first, last, letter]) => {
      const words = WORDS[letter] + ": " + span(columns[first][0], columns[last][1]);
      const sign = last - first > 3 ? WORDS[letter] : letter === "n" ? "" : letter === "k" ? "?" : letter.toUpperCase();
      return make("td", { colspan: last - first + 1, class: "v-" + SHADES[letter], title: words, "aria-label": words }, sign);
    });
    return make("tr", {}, make("th", { scope: "row" }, modelLink(number)), ...cells);
  });
  return make("div", { class: "fit", tabindex: "0", role: "region", "aria-label": "Models by release" },
    make("table", { class: "grid map" }, make("caption", { class: "unseen" }, "Models by release, the newest first"),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Model"), ...heads)), make("tbody", {}, ...rows)));
}

function showMap(body) {
  const input = make("input", { type: "search", placeholder: "Part of a name", "aria-label": "Only models whose name has", value: mapped });
  const select = make("select", { "aria-label": "Order" }, ...Object.keys(ORDERS).map((one) => make("option", { selected: one === order }, one)));
  const box = make("div", {});
  const legend = make("ul", { class: "legend" }, ...["n", "f", "m", "u", "k", "s"].map((letter) => make("li", {}, tag(letter), {
    n: " all on the GPU", f: " some of it on the CPU", m: " raises: no kernel", u: " raises: the call is refused", k: " not known", s: " ends with an error of its own",
  }[letter])));
  const update = () => {
    const numbers = found(mapped).filter((number) => index.models[number][3][chosen.setting]);
    const key = new Map(numbers.map((number) => [number, ORDERS[order](index.models[number][3][chosen.setting])]));
    numbers.sort((one, other) => key.get(one) - key.get(other) || one - other);
    const columns = columnsOf(index.models.map((model) => model[3][chosen.setting]).filter(Boolean));
    box.replaceChildren(numbers.length ? mapTable(numbers, columns) : nothing("No model has that in its name."));
  };
  input.addEventListener("input", () => { mapped = input.value; update(); });
  select.addEventListener("change", () => { order = select.value; update(); });
  body.replaceChildren(make("div", { class: "filter" }, input, select), legend, box);
  update();
}
