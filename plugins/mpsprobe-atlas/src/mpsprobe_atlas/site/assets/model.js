// One model: what the chosen release does with it, and what the others do.
function showModel(body, name) {
  const number = index.models.findIndex((model) => model[0] === name);
  const heads = index.models.map((_, at) => at).filter((at) => index.models[at][0].split("/")[0] === name);
  if (number < 0) {
    body.replaceChildren(heads.length ? make("p", {}, "The atlas has these of it: ", some(heads.map(modelLink), 40)) : nothing("The atlas does not have that model."));
    return null;
  }
  return load("models-" + Math.floor(number / index.together)).then((file) => {
    body.replaceChildren(...modelParts(number, file.models[number % index.together][chosen.setting], file.strings));
  });
}

function modelParts(number, details, strings) {
  const model = index.models[number];
  const release = index.releases[chosen.release];
  if (!details) return [nothing("It was not swept for " + settingName(chosen.setting) + ".")];
  if (details.error !== undefined) return [make("p", { class: "alert" }, "It could not be judged: " + details.error), make("p", {}, details.hint || "")];
  const at = details.by[chosen.release];
  if (at < 0) return [nothing("It was not judged for torch " + release + ".")];
  const [findings, peak, wrong, failure, fits] = details.runs[at];
  const states = [...model[3][chosen.setting]];
  const parts = [facts([
    ["class", model[1] ? make("code", {}, model[1]) : null],
    ["parameters", model[2] ? NUMBERS.format(model[2]) : null],
    ["native since", nativeSince(states.join(""))],
    ["memory at the peak", peak ? bytes(peak) : null],
    ["Macs", memory(fits)],
  ])];
  if (strings[failure]) parts.unshift(make("p", { class: "alert" }, "The run ends with " + strings[failure]));
  parts.push(make("h3", {}, "What each release does"), strip(states));
  parts.push(make("h3", {}, "Operators that are not native on torch " + release));
  parts.push(findings.length ? make("ul", { class: "entries" }, ...findings.map((one) => finding(details.findings[one], strings))) : nothing("None: every operator runs on the GPU."));
  const mine = wrong.filter(([one]) => concerns(index.advisories[one][3]));
  if (mine.length) {
    parts.push(make("h3", {}, "Known wrong results"), make("ul", { class: "entries" }, ...mine.map(([one, calls]) => advisory(index.advisories[one], calls))));
  }
  const phase = index.settings[chosen.setting][1];
  const command = "mpsprobe coverage " + model[0] + " --torch " + release + (phase === "inference" ? "" : " --phase " + phase);
  parts.push(make("p", { class: "quiet further" }, "More about each operator: ", make("code", {}, command)));
  return parts;
}

// Which Macs have room: of the chosen one in words, else of each size of memory.
function memory(fits) {
  if (!/[^-]/.test(fits)) return null;
  if (chosen.machine >= 0) {
    const [label, , , at] = index.machines[chosen.machine];
    return label + ": " + (FITS[fits[at]] || "not known");
  }
  const shown = runs([...fits]).map(([first, last, letter]) => {
    const names = [first, last].map((at) => index.memory[at] / 2 ** 30);
    return (FITS[letter] || "not known").split(":")[0] + " on " + (first === last ? names[0] : names[0] + " to " + names[1]) + " GB";
  });
  return shown.join(", ");
}

function concerns(chips) {
  if (!chips || !chips.length || chosen.machine < 0) return true;
  const [, generation, chip] = index.machines[chosen.machine];
  return chips.includes(generation) || chips.includes(chip);
}

function finding([operator, letter, calls, why, act, since, module, lines], strings) {
  return make("li", {},
    make("p", { class: "head" }, operatorLink(operator), tag(letter)),
    strings[act] ? make("p", { class: "do" }, strings[act]) : "",
    facts([["why", strings[why]], ["calls", NUMBERS.format(calls)], ["native since", strings[since]], ["where", strings[module] ? make("code", {}, strings[module]) : null],
      ["lines", strings[lines] ? make("code", {}, strings[lines]) : null]]));
}

function advisory([name, title, workaround, chips], calls) {
  return make("li", {},
    make("p", { class: "head" }, make("code", {}, name), make("span", {}, title)),
    make("p", { class: "do" }, workaround),
    facts([["calls", NUMBERS.format(calls)], ["only on", (chips || []).join(", ").toUpperCase()]]));
}
