// Layers by name: what a name means, what a layer reads, and what reads it.

const NAMES = {
  attention: ATTENTION_LAYER,
  output: (n) => (n ? `Encoder-${n}-FeedForward-Norm` : "Embedding-Norm"),
};

// Puts a block's number into a name; a model that kbert did not build has its names as they are.
const filled = (text, n, config) => (generic ? text : text
  .replaceAll("{hidden}", NAMES.output(n - 1))
  .replaceAll("{last}", NAMES.output(config.L))
  .replaceAll("{n}", n)
  .replaceAll("{i}", n - 1));

// What a name means: its row, the block it is of, the part of its attention; null: nothing here.
function layerOf(id, config) {
  const { before, block, after } = graphOf(config);
  const outside = [...before, ...after].find((one) => one.name === id);
  if (outside) return { id, row: outside, n: 0, template: id };
  const [, number, rest, partName, head = 0] =
    /^Encoder-(\d+)-([^/]*)(?:\/([a-z_]+)(?:-(\d+))?)?$/.exec(id || "") || [];
  const n = Number(number);
  const template = `Encoder-{n}-${rest}`;
  const row = block.find((one) => one.name === template);
  if (!row || !(n >= 1 && n <= config.L)) return null;
  if (!partName) return { id, row, n, template };
  const name = partName === "head" ? "heads" : partName;
  const part = template === NAMES.attention && DATA.parts.find((one) => one.name === name);
  if (!part || (partName === "head") !== (head >= 1) || head > config.A) return null;
  return { id, row, n, template, part, head: Number(head), partTemplate: `${template}/${name}` };
}

// The rows of the layers of one block, or of those outside the encoder, with their own names.
function instances(config, n) {
  const graph = graphOf(config);
  const rows = n ? graph.block : [...graph.before, ...graph.after];
  return rows.map((row) => ({
    row, n, name: filled(row.name, n, config), inputs: filled(row.connected_to, n, config),
  }));
}

function* everyLayer(config) {
  const { before } = graphOf(config);
  const outside = instances(config, 0);
  yield* outside.slice(0, before.length);
  for (let n = 1; n <= config.L; n += 1) yield* instances(config, n);
  yield* outside.slice(before.length);
}

function inputsOf(text) {
  return text.split(", ").filter(Boolean).map((connection) => {
    const [name, , tensor] = connection.replaceAll("]", "").split("[");
    return { name, tensor: Number(tensor) };
  });
}

// What a layer reads and what reads it: [{name, tensor}], looked for where it can be.
function connections(layer, config) {
  const blocks = layer.n ? [layer.n, layer.n + 1] : [1];
  const near = [0, ...blocks].filter((n) => n <= config.L).flatMap((n) => instances(config, n));
  const outputs = near.flatMap(({ name, inputs }) => inputsOf(inputs)
    .filter((input) => input.name === layer.id)
    .map(({ tensor }) => ({ name, tensor })));
  const own = near.find((one) => one.name === layer.id);
  return { inputs: own ? inputsOf(own.inputs) : [], outputs };
}

// The variables of a layer, or of a part of its attention, with the block's numbers put in.
function variablesOf(layer, config) {
  const own = (one) => one.layer === layer.template &&
    (!layer.part || one.variable.startsWith(`${layer.part.name}/`));
  const inBlock = (name) => name && filled(name, layer.n, config);
  return DATA.variables.filter(own).map(({ variable, shapes, names }) => ({
    variable, shapes,
    place: `${inBlock(layer.template)}/${variable}`,
    names: Object.fromEntries(Object.entries(names)
      .map(([format, name]) => [format, inBlock(name)])),
  }));
}

// A configuration's layers as `kbert account --format csv` prints them; without formulas where
// kbert did not build the model.
const CSV_COLUMNS = ["layer", "type", "output_shape", "connected_to", "group", "params", "formula",
  "arithmetic", "flops", "flops_formula", "activation_bytes", "activation_formula"];

function csv(config) {
  const counted = count(config);
  const text = (formula) => formulaText(formula, config);
  const lines = [...everyLayer(config)].map(({ row, name, inputs }) => {
    const costs = counted.byRow[row.name];
    return [
      name, row.type, shapeOf(row.output_shape, config), inputs, row.group,
      costs.params, text(row.params), inNumbers(row.params, config),
      costs.flops, text(row.flops), costs.kept, text(row.kept),
    ];
  });
  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const columns = generic ? CSV_COLUMNS.indexOf("formula") : CSV_COLUMNS.length;
  return [CSV_COLUMNS, ...lines].map((line) =>
    `${line.slice(0, columns).map((cell) => quote(String(cell))).join(",")}\n`).join("");
}

const SIZES = ["L", "H", "A", "FFD", "T", "P", "G"];  // what makes two models differ

// The name of the preset with a configuration's sizes; undefined: none.
function presetOf(config) {
  return Object.keys(DATA.presets).find((name) =>
    SIZES.every((letter) => DATA.presets[name][letter] === config[letter]));
}

// The sizes in which a configuration differs from what the page was made of.
const changedSizes = (config) => SIZES.filter((letter) => config[letter] !== DATA.values[letter]);

// What a configuration is called: it is the page's own only while its sizes are.
function nameOf(config) {
  const changed = changedSizes(config);
  if (!changed.length) return DATA.title;
  return presetOf(config) ||
    `${DATA.title} with ${changed.map((letter) => `${letter} = ${config[letter]}`).join(", ")}`;
}

// The configuration as Google's bert_config.json has it, or config.json of another family.
function configJson(config) {
  const values = { ...DATA.config };
  for (const letter of SIZES.filter((one) => DATA.letters[one])) {
    values[DATA.letters[letter].key] = config[letter];
  }
  return `${JSON.stringify(values, Object.keys(values).sort(), 2)}\n`;
}
