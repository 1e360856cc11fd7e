// The page's numbers: `facts` as JSON, the rest as little-endian bytes in base64.
const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const { tokens, layers, heads } = facts;
const size = tokens.length;
const isSpecial = new Set(facts.special);

function bytes(name) {
  const text = atob($(`data-${name}`).textContent);
  const found = new Uint8Array(text.length);
  for (let n = 0; n < text.length; n++) found[n] = text.charCodeAt(n);
  return found;
}
const largest = facts.largest; // how many weights a row has here; null: all
const perRow = largest || size;
const steps = new Uint16Array(bytes("weights").buffer);
const columnOf = largest ? new Uint16Array(bytes("columns").buffer) : null;
const numberOf = (layer, head) => layer * heads.length + head; // a head's place among all

// What token `row` attends to, as [column, weight]; in whole maps not sorted.
function rowOf(number, row) {
  const start = (number * size + row) * perRow;
  const found = new Array(perRow);
  for (let n = 0; n < perRow; n++) {
    found[n] = [columnOf ? columnOf[start + n] : n, steps[start + n] / facts.steps.weight];
  }
  return found;
}

// The weight, or null for one that was left out.
function weightOf(number, row, column) {
  const start = (number * size + row) * perRow;
  if (!columnOf) return steps[start + column] / facts.steps.weight;
  const place = columnOf.subarray(start, start + perRow).indexOf(column);
  return place < 0 ? null : steps[start + place] / facts.steps.weight;
}

// Of a row's weights that were left out: their mean, and what none is more than.
function restOf(number, row) {
  const start = (number * size + row) * perRow;
  let sum = 0;
  for (let n = 0; n < perRow; n++) sum += steps[start + n];
  const share = Math.max(0, 1 - sum / facts.steps.weight);
  return { share, mean: share / Math.max(1, size - perRow), most: steps[start + perRow - 1] / facts.steps.weight };
}

// A row as numbers by column; what was left out is even.
function filledRow(number, row) {
  const found = new Float32Array(size);
  if (columnOf) found.fill(restOf(number, row).mean);
  for (const [column, weight] of rowOf(number, row)) found[column] = weight;
  return found;
}

function byWeight(entries) {
  return entries.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}
