// To look for a model, and what the chosen release does with those that are found.
const MOST_MODELS = 60;
let asked = "";
let texts = null;

function found(words) {
  texts = texts || index.models.map((model) => (model[0] + " " + model[1]).toLowerCase());
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  return index.models.map((_, number) => number).filter((number) => parts.every((part) => texts[number].includes(part)));
}

function modelRows(numbers) {
  return numbers.slice(0, MOST_MODELS).map((number) => {
    const model = index.models[number];
    const since = nativeSince(model[3][chosen.setting]);
    return [modelLink(number), model[1] ? make("code", {}, model[1]) : "", model[2] ? NUMBERS.format(model[2]) : "", tag(stateOf(model)), since || "\u2013"];
  });
}

function showModels(body) {
  const input = make("input", { type: "search", id: "search", placeholder: "bert, whisper, GPT2LMHeadModel \u2026", autocomplete: "off", spellcheck: "false", "aria-label": "Look for a model" });
  input.value = asked;
  const count = make("span", { class: "quiet", role: "status" });
  const list = make("div", { class: "block" });
  const update = () => {
    const numbers = found(asked);
    count.textContent = asked ? NUMBERS.format(numbers.length) + " of " + plural(index.models.length, "model") : plural(index.models.length, "model");
    const columns = [["Model"], ["class", "spare"], ["parameters", "n spare"], ["torch " + index.releases[chosen.release]], ["native since"]];
    const more = numbers.length > MOST_MODELS ? make("p", { class: "quiet" }, "and " + NUMBERS.format(numbers.length - MOST_MODELS) + " more: type a part of the name") : "";
    list.replaceChildren(numbers.length ? tableOf("Models", columns, modelRows(numbers)) : nothing("No model has that in its name."), more);
  };
  input.addEventListener("input", () => { asked = input.value; update(); });
  body.replaceChildren(make("div", { class: "filter wide" }, input, count), list);
  update();
}
