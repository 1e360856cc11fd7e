// The line of controls, and what stands above it.
function fillHeader() {
  $("text").textContent = facts.text;
  $("text").title = facts.text;
  const counted = (numbers, name) =>
    numbers.length === 1 ? `${name} ${numbers[0]}` : `${numbers.length} ${name}s`;
  $("size").textContent = `${counted(layers, "layer")} × ${counted(heads, "head")}, ${size} tokens`;
  if (facts.segments.includes(1)) {
    const count = (sentence) => facts.segments.filter((one) => one === sentence).length;
    const key = (name, n) => element("span", { className: `key ${name.toLowerCase()}`, textContent: `sentence ${name}: ${n}` });
    $("size").append(key("A", count(0)), key("B", count(1)));
  }
  $("notes").append(...facts.notes.map((note) => element("li", { textContent: note })));
  $("most-bits").textContent = two(Math.log2(size));
}

function fillControls() {
  for (const [id, numbers] of [["layer", layers], ["head", heads]]) {
    $(id).append(...numbers.map((number, place) => new Option(number, place)));
    $(id).addEventListener("change", () => change({ [id]: Number($(id).value) }));
    $(id).parentElement.hidden = numbers.length === 1;
  }
  for (const button of document.querySelectorAll("[data-step]")) {
    const [name, step] = button.dataset.step.split(" ");
    const count = (name === "layer" ? layers : heads).length;
    button.addEventListener("click", () => change({ [name]: (state[name] + Number(step) + count) % count }));
  }
  $("special").addEventListener("change", () => change({ special: $("special").checked }));
  $("special").parentElement.hidden = !isSpecial.size;
  $("direction").hidden = !facts.segments.includes(1);
  $("direction").addEventListener("change", (event) => change({ direction: event.target.value }));
}

views.push({
  needs: ["layer", "head", "special"],
  draw() {
    $("layer").value = state.layer;
    $("head").value = state.head;
    $("special").checked = state.special;
    for (const where of document.querySelectorAll(".where")) where.textContent = whereText();
  },
});
