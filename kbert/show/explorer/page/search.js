// Search by a layer's name, its type, or a variable's name in any format.

const MOST_FOUND = 40;
let found = [];
let marked = -1;

function* searchable() {
  if (generic) {
    for (const row of DATA.generic.rows) yield { id: row.name, text: row.name, under: row.type };
    return;
  }
  const config = current();
  yield { id: ENCODER, text: "Encoder", under: `blocks: ${config.L}` };
  for (const { row, name, n } of everyLayer(config)) {
    yield { id: name, text: name, under: row.type };
    for (const { variable, names } of variablesOf({ template: row.name, n }, config)) {
      const part = row.name === NAMES.attention ? `/${variable.split("/")[0]}` : "";
      for (const [format, text] of Object.entries(names)) {
        if (text) yield { id: name + part, text, under: `${FORMATS[format]} · ${name}` };
      }
    }
  }
}

// The layers that have all words of a query; first those that are called like it.
function search(query) {
  const typedText = query.trim().toLowerCase();
  if (!typedText) return [];
  const hits = [];
  for (const entry of searchable()) {
    const name = entry.text.toLowerCase();
    const text = `${name} ${entry.under.toLowerCase()}`;
    if (!typedText.split(/\s+/).every((word) => text.includes(word))) continue;
    const ranks = [name === typedText, name.startsWith(typedText), name.includes(typedText), true];
    hits.push({ ...entry, rank: ranks.indexOf(true) });
  }
  return hits.sort((a, b) => a.rank - b.rank).slice(0, MOST_FOUND);
}

function drawFound() {
  const input = $("search");
  const open = input.value.trim() !== "";
  const none = h("li.dim", {
    role: "option", "aria-disabled": "true", "aria-selected": "false",
  }, "Nothing of that name");
  const options = found.map(({ text, under }, place) => h("li", {
    role: "option", id: `found-${place}`, "aria-selected": String(place === marked),
    onpointerdown: (event) => {
      event.preventDefault();
      pick(place);
    },
  }, h("code", {}, broken(text)), h("span.dim", {}, under)));
  $("found").replaceChildren(...(options.length ? options : [none]));
  $("found").hidden = !open;
  input.setAttribute("aria-expanded", String(open));
  input.setAttribute("aria-activedescendant", marked >= 0 ? `found-${marked}` : "");
  if (marked >= 0) options[marked].scrollIntoView({ block: "nearest" });
}

function pick(place) {
  const entry = found[place];
  if (!entry) return;
  closeSearch();
  go(entry.id);
}

function closeSearch() {
  $("search").value = "";
  findLayers();
}

function findLayers() {
  found = search($("search").value);
  marked = found.length ? 0 : -1;
  drawFound();
}

function watchSearch() {
  const input = $("search");
  input.addEventListener("input", findLayers);
  input.addEventListener("focus", drawFound);
  input.addEventListener("blur", () => {
    $("found").hidden = true;
    input.setAttribute("aria-expanded", "false");
  });
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) {
      marked = (marked + step + found.length) % found.length;
      drawFound();
      event.preventDefault();
    } else if (event.key === "Enter") {
      pick(marked);
    } else if (event.key === "Escape") {
      closeSearch();
      event.stopPropagation();
    }
  });
}
