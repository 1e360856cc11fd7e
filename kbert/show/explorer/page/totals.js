// What the configurations come to, and where it goes.

const MEMORY = { weights: "embedding", gradients: "feedforward", adam: "mlm", activations: "attention" };
const PART_TITLES = { other: "dropout, add, norm" };

// The whole as parts that are coloured as in the figure.
function partsOf(config, counted) {
  const graph = graphOf(config);
  const blocks = BigInt(config.L);
  const parts = [];
  const add = (name, kind, costs) => parts.push({ name, kind, costs });
  for (const [group, costs] of Object.entries(counted.byGroup)) {
    if (group !== "encoder") {
      add(group, { embeddings: "embedding", MLM: "mlm" }[group] || "head", costs);
      continue;
    }
    const of = (kind) => graph.block.filter((row) => (["attention", "feedforward"].includes(row.kind) ? row.kind : "joint") === kind);
    const all = (kind) => times(added(of(kind).map((row) => counted.byRow[row.name])), blocks);
    add("attention", "attention", all("attention"));
    add("feed-forward", "feedforward", all("feedforward"));
    add(PART_TITLES.other, "joint", all("joint"));
  }
  return parts;
}

function drawTotals() {
  const wrong = state.configs.some((config) => Object.keys(problems(config)).length);
  const all = sensible.map((config) => ({ config, counted: count(config) }));
  for (const id of ["sums", "bars"]) $(id).classList.toggle("stale", wrong);
  $("sums").replaceChildren(
    wrong ? h("p", { class: "warning" }, "Counted for the last configuration that made sense.") : "",
    sumsTable(all));
  $("bars").replaceChildren(
    ...all.flatMap(({ config, counted }, place) => barsOf(config, counted, all.length > 1 ? COLUMNS[place] : "")));
}

function sumsTable(all) {
  const two = all.length > 1;
  const rows = [
    ["Parameters", (one) => one.counted.total.params, two ? UNITS.params.short : grouped, "params"],
    [two ? "FLOPs" : "FLOPs, forward", (one) => one.counted.total.flops, two ? UNITS.flops.short : flops, "flops"],
    [two ? "FLOPs to train" : "FLOPs to train, a sequence", (one) => one.counted.training, two ? UNITS.flops.short : flops, "training"],
    ["Activations", (one) => one.counted.total.kept, bytes, "kept"],
    [two ? "Memory" : "Memory to train", (one) => one.counted.memory.total, bytes, "memory"],
  ];
  const head = two ? h("thead", {}, h("tr", {}, h("td"), all.map(({ config }, place) => h("th", { scope: "col", title: nameOf(config) }, h("b", {}, COLUMNS[place]), ` ${presetOf(config) || ""}`)),
    h("th", { scope: "col" }, "B / A"))) : null;
  return h("table", { class: "sums", "aria-label": "Sums" }, head, h("tbody", {}, rows.map(([title, of, text, name]) => {
    const values = all.map(of);
    const ratio = values.length > 1 ? h("td", { class: "dim" }, `× ${(Number(values[1] * 10000n / (values[0] || 1n)) / 10000).toPrecision(3)}`) : null;
    return h("tr", {}, h("th", { scope: "row" }, title),
      values.map((value, place) => h("td", { title: grouped(value), "data-total": `${COLUMNS[place]}-${name}`, "data-exact": String(value) }, text(value))), ratio);
  })));
}

function barsOf(config, counted, column) {
  const parts = partsOf(config, counted);
  const bars = ["params", "flops", "kept"].map((measure) => ({  // bytes are divided as parameters are
    title: UNITS[measure].title,
    pieces: parts.map(({ name, kind, costs }) => ({ name, kind, part: share(costs[measure], counted.total[measure]), text: UNITS[measure].short(costs[measure]) })),
  }));
  bars.push({
    title: "Memory",
    pieces: Object.entries(MEMORY).map(([name, kind]) => ({
      name: name === "adam" ? "Adam" : name, kind, part: share(counted.memory[name], counted.memory.total), text: bytes(counted.memory[name]),
    })),
  });
  return [h("h3", {}, column ? `Where it goes: ${column}` : "Where it goes"),
    ...bars.map((bar, place) => [barOf(bar), place === 2 ? legend(parts.map(({ name, kind }) => [name, kind])) : null]).flat().filter(Boolean),
    legend(Object.entries(MEMORY).map(([name, kind]) => [name === "adam" ? "Adam" : name, kind]))];
}

function barOf({ title, pieces }) {
  const seen = pieces.filter(({ part }) => part > 0);
  const told = `${title}: ${seen.map(({ name, part, text }) => `${name} ${percent(part)}, ${text}`).join("; ")}`;
  return h("div", { class: "stack" }, h("span", { class: "dim" }, title),
    h("div", { class: "pieces", role: "img", "aria-label": told }, seen.map(({ name, kind, part, text }) =>
      h("span", { class: `piece k-${kind}`, style: `flex-grow:${part.toFixed(5)}`, title: `${name}: ${percent(part)}, ${text}` },
        part > 0.13 ? percent(part) : ""))));
}

function legend(entries) {
  return h("ul", { class: "legend", "aria-hidden": "true" }, entries.map(([name, kind]) =>
    h("li", {}, h("span", { class: `swatch k-${kind}` }), name)));
}
