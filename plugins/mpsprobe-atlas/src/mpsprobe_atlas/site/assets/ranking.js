// Which kernel next, and what each release gained.
function shares(parts, whole, words) {
  const svg = drawn("svg", words ? { class: "bar", role: "img", "aria-label": words } : { class: "bar", "aria-hidden": "true" });
  let at = 0;
  for (const [count, color] of parts) {
    svg.append(drawn("rect", { x: (100 * at) / whole + "%", width: (100 * count) / whole + "%", height: "100%", class: "f-" + color }));
    at += count;
  }
  return svg;
}

function showRanking(body) {
  const { tables, by } = index.ranking[chosen.setting];
  const rows = tables[by[chosen.release]];
  const release = index.releases[chosen.release];
  const blocking = rows.length ? rows : [];
  const most = Math.max(1, ...blocking.map((row) => row[1]));
  const key = (color, words) => make("li", {}, shares([[1, color]], 1, ""), words);
  body.replaceChildren(
    make("p", { class: "quiet" }, "Operators that are missing or refused on torch " + release + ", by the number of architectures that cannot run without them. \u201cAlone\u201d are those that nothing else blocks: with this kernel they would run."),
    make("ul", { class: "legend" }, key("missing", "blocked by it alone"), key("others", "blocked by others too")),
    blocking.length ? tableOf("Operators by the architectures that they block", [["Operator"], ["verdict", "spare"], ["blocks", "n"], ["alone", "n"], ["of the most", "spare wide"]],
      blocking.map(([operator, blocks, alone, letter]) => [operatorLink(operator), tag(letter), NUMBERS.format(blocks), alone ? NUMBERS.format(alone) : "\u2013",
        shares([[alone, "missing"], [blocks - alone, "others"]], most, alone + " blocked by it alone, " + (blocks - alone) + " by others too")]))
      : nothing("No operator blocks any architecture on torch " + release + "."));
}

function showReleases(body) {
  const gained = index.gained[chosen.setting];
  const names = (list) => list.map((number) => link("model", index.architectures[number]));
  // A release that changes nothing shares the row of the one before it.
  const changes = gained.map((one, at) => at === gained.length - 1 || one[3].length + one[4].length + one[5].length > 0
    || one[0] !== gained[at + 1][0] || one[1] !== gained[at + 1][1]);
  const rows = [];
  let newest = 0;
  gained.forEach((one, at) => {
    if (!changes[at]) return;
    const [clean, blocked, whole, operators, freed, lost] = one;
    const words = plural(clean, "architecture") + " all native, " + blocked + " blocked, of " + whole;
    const details = [
      operators.length ? make("div", {}, make("span", { class: "quiet" }, "block nobody any more: "), some(operators.map(operatorLink), 8)) : "",
      freed.length ? make("div", {}, make("span", { class: "quiet" }, "not blocked any more: "), some(names(freed), 8)) : "",
      lost.length ? make("div", {}, make("span", { class: "quiet" }, "blocked now: "), some(names(lost), 8)) : "",
    ];
    rows.push(make("li", {},
      make("p", { class: "head" }, "torch " + span(newest, at)),
      shares([[clean, "native"], [whole - clean - blocked, "fallback"], [blocked, "missing"]], whole || 1, words),
      make("p", { class: "quiet" }, NUMBERS.format(clean) + " all native, " + NUMBERS.format(blocked) + " blocked"),
      make("div", { class: "lines" }, ...details)));
    newest = at + 1;
  });
  body.replaceChildren(
    make("ul", { class: "legend" }, ...[["n", " all on the GPU"], ["f", " partly on the CPU, or not known"], ["m", " blocked"]].map(([letter, words]) => make("li", {}, tag(letter), words))),
    make("ol", { class: "entries gains" }, ...rows));
}
