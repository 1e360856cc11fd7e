// Every layer as a table: for reading, for screen readers, for print.

const MOST_ROWS = 2000;
const TABLE_COLUMNS = [
  "Type", "Output shape", "Parameters", "FLOPs, forward", "Activation bytes",
];

function drawTable() {
  if (!$("table").open) return;
  const config = current();
  const { byRow } = countsNow();
  const rows = [...everyLayer(config)];
  const lines = rows.slice(0, MOST_ROWS).map(({ row, name }) => [
    button(name, () => go(name), { class: "plain" }),
    row.type, shapeOf(row.output_shape, config),
    ...COSTS.map((measure) => h("td.number", grouped(byRow[row.name][measure]))),
  ]);
  const left = `The first ${MOST_ROWS} of ${grouped(rows.length)} layers; the CSV has all.`;
  $("rows").replaceChildren(
    tableOf({ class: "layers" }, ["Layer", ...TABLE_COLUMNS.slice(0, 2 + COSTS.length)], lines),
    rows.length > MOST_ROWS ? h("p", left) : "");
}
