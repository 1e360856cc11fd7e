readAddress();
fillHeader();
fillControls();
fillThumbnails();
fillLines();
listenToHeat();
fillVectors();
fillTable();
change({ layer: state.layer, head: state.head, special: state.special, direction: "", colours: true });
darkness.addEventListener("change", () => change({ colours: true }));
addEventListener("hashchange", () => {
  readAddress();
  change({ layer: state.layer, head: state.head });
});
