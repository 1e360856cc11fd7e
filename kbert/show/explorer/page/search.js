// Search by a layer's name, its type, or a variable's name in any format.

const MOST_FOUND = 40;
let found = [];
let marked = -1;

function* searchable() {
  const config = current();
  if (!generic) yield { id: ENCODER, text: "Encoder", under: `blocks: ${config.L}` };
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
  }, h("code", broken(text)), dim(under)));
  $("found").replaceChildren(...(options.length ? options : [none]));
  $("found").hidden = !open;
  input.ariaExpanded = open;
  input.setAttribute("aria-activedescendant", open && found.length ? `found-${marked}` : "");
  options[marked]?.scrollIntoView({ block: "nearest" });
}

function pick(place) {
  const { id } = found[place] || {};
  if (!id) return;
  closeSearch();
  go(id);
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
  const onblur = () => {
    $("found").hidden = true;
    $("search").ariaExpanded = false;
  };
  const onkeydown = (event) => {
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
  };
  Object.assign($("search"), { oninput: findLayers, onfocus: drawFound, onblur, onkeydown });
}
