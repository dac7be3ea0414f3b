// One operator: the releases, who calls it with what, and texts to take away.
function showOperator(body, name) {
  const number = index.operators.indexOf(name);
  if (number < 0) {
    body.replaceChildren(nothing("Every release in the atlas runs " + name + " natively, or no model calls it."));
    return null;
  }
  return load("operator-" + number).then((file) => body.replaceChildren(...operatorParts(name, file)));
}

function operatorParts(name, file) {
  const [letter, count, blocked] = file.history[chosen.release];
  const release = index.releases[chosen.release];
  const words = (one, at) => WORDS[one] + (file.history[at][1] ? ", " + plural(file.history[at][1], "architecture") : ", or not met");
  const parts = [
    make("p", {}, tag(letter), " on torch " + release + (count ? ", in " + plural(count, "architecture") + (blocked ? ", of which it blocks " + NUMBERS.format(blocked) : "") : "")),
    ...file.reasons.map(([one, text]) => make("p", { class: "quiet" }, "torch " + one + ": " + text)),
    make("h3", {}, "What each release does"), strip(file.history.map((one) => one[0]), words),
    make("h3", {}, "Who calls it"),
    callers(file.callers),
  ];
  if (file.examples.length) parts.push(make("h3", {}, "With what"), calls(file.examples, file.dtypes));
  parts.push(takeaway("For PyTorch's tracking issue", file.tracker, "issue-141287.md",
    "Who needs the kernel, and with which calls, to add to pytorch/pytorch#141287."));
  if (file.samples) {
    parts.push(takeaway("Samples to run", file.samples, "samples_" + name.split("::").pop().replaceAll(".", "_") + ".py",
      "These calls as OpInfo-like samples: it runs them on MPS and compares the results with those of the CPU."));
  }
  return parts;
}

function callers(rows) {
  const most = 50;
  const box = make("div", {});
  const draw = (list) => box.replaceChildren(tableOf("Who calls it", [["Model"], ["phase"], ["calls", "n"]],
    list.map(([model, setting, count]) => [modelLink(model), index.settings[setting][1], NUMBERS.format(count)])));
  draw(rows.slice(0, most));
  if (rows.length > most) {
    const button = make("button", { type: "button" }, "Show all " + rows.length);
    button.addEventListener("click", () => { draw(rows); button.remove(); });
    return make("div", { class: "block" }, box, button);
  }
  return box;
}

function calls(examples, dtypes) {
  const said = Object.entries(dtypes).map(([name, count]) => name + " (" + count + ")").join(", ");
  return make("div", { class: "block" }, make("p", { class: "quiet" }, "tensor(shape, strides, dtype) stands for a tensor; dtypes: " + said),
    make("ul", { class: "calls" }, ...examples.map(([call, models]) => make("li", {}, make("code", {}, call), make("p", { class: "quiet" }, some(models.map(modelLink), 6))))));
}
