// Every layer as a table: for reading, for screen readers, for print.

const MOST_ROWS = 2000;

function drawTable() {
  const details = $("table");
  if (!details.open) return;
  const [columns, rows] = generic ? genericRows() : countedRows();
  const shown = rows.slice(0, MOST_ROWS);
  const body = shown.map(({ id, cells }) => h("tr", { "aria-current": id === state.chosen ? "true" : null },
    h("th", { scope: "row" }, button(id, () => go(id), { class: "plain" })),
    cells.map((cell) => h("td", { class: typeof cell === "string" ? "" : "number" }, typeof cell === "string" ? cell : grouped(cell)))));
  $("rows").replaceChildren(h("table", { class: "layers" },
    h("thead", {}, h("tr", {}, columns.map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, body)));
  if (rows.length > MOST_ROWS) {
    $("rows").append(h("p", {}, `The first ${grouped(MOST_ROWS)} of ${grouped(rows.length)} layers; the CSV has all.`));
  }
}

function countedRows() {
  const config = current();
  const counted = count(config);
  const rows = [];
  for (const { row, name } of everyLayer(config)) {
    const costs = counted.byRow[row.name];
    rows.push({ id: name, cells: [row.type, shapeOf(row.output_shape, config), costs.params, costs.flops, costs.kept] });
  }
  return [["Layer", "Type", "Output shape", "Parameters", "FLOPs, forward", "Activation bytes"], rows];
}

function genericRows() {
  return [["Layer", "Type", "Output shape", "Parameters"], DATA.generic.rows
    .map((row) => ({ id: row.name, cells: [row.type, row.shape, BigInt(row.params)] }))];
}
