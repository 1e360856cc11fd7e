// What the configurations come to, with the ratio of two.

// By name: a title, what is counted, and the measure as which it is written.
const TOTALS = {
  params: ["Parameters", ({ total }) => total.params, "params"],
  flops: ["FLOPs, forward", ({ total }) => total.flops, "flops"],
  training: ["FLOPs to train, a sequence", ({ training }) => training, "flops"],
  kept: ["Activations", ({ total }) => total.kept, "bytes"],
  memory: ["Memory to train", ({ memory }) => memory.total, "bytes"],
};

function drawTotals() {
  const wrong = state.configs.some((config) => Object.keys(problems(config)).length);
  $("sums").classList.toggle("stale", wrong);
  $("sums").replaceChildren(
    wrong ? warning("Counted for the last configuration that made sense.") : "",
    sumsTable());
}

function sumsTable() {
  const two = comparing();
  const titles = sensible.map((config, place) =>
    [h("b", { title: nameOf(config) }, COLUMNS[place]), ` ${presetOf(config) || ""}`]);
  const rows = Object.entries(TOTALS).map(([name, [title, of, measure]]) => {
    const values = counts.map(of);
    const text = UNITS[measure][two ? "short" : "alone"];
    const cells = values.map((value, place) => h("td", {
      title: grouped(value), "data-total": `${COLUMNS[place]}-${name}`, "data-exact": value,
    }, text(value)));
    if (!two) return [title, ...cells];
    const ratio = share(values[1], values[0]).toPrecision(3);
    return [title.split(",")[0], ...cells, h("td.dim", `× ${ratio}`)];
  });
  return tableOf({ class: "sums", "aria-label": "Sums" }, two ? ["", ...titles, "B / A"] : [], rows);
}
