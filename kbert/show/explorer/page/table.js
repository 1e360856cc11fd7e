// Every layer as a table: for reading, for screen readers, for print.

const MOST_ROWS = 2000;
const TABLE_COLUMNS = [
  "Type", "Output shape", "Parameters", "FLOPs, forward", "Activation bytes",
];

function drawTable() {
  if (!$("table").open) return;
  const rows = generic ? genericRows() : countedRows(current());
  const lines = rows.slice(0, MOST_ROWS).map(([id, type, shape, ...numbers]) => [
    button(id, () => go(id), { class: "plain" }), type, shape,
    ...numbers.map((number) => h("td.number", {}, grouped(number))),
  ]);
  const left = `The first ${MOST_ROWS} of ${grouped(rows.length)} layers; the CSV has all.`;
  $("rows").replaceChildren(
    tableOf({ class: "layers" }, TABLE_COLUMNS.slice(0, rows[0].length - 1), lines),
    rows.length > MOST_ROWS ? h("p", {}, left) : "");
}

function countedRows(config) {
  const { byRow } = count(config);
  return [...everyLayer(config)].map(({ row, name }) => {
    const { params, flops: operations, kept } = byRow[row.name];
    return [name, row.type, shapeOf(row.output_shape, config), params, operations, kept];
  });
}

const genericRows = () =>
  DATA.generic.rows.map((row) => [row.name, row.type, row.shape, row.params]);
