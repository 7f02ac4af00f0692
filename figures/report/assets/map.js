// Shows the arcs of the claim that is pointed at or focused.
(() => {
  const arcs = [...document.querySelectorAll("path.arc")];
  const show = (id) => arcs.forEach((arc) => arc.classList.toggle("on", arc.dataset.ends.split(" ").includes(id)));
  for (const link of document.querySelectorAll("svg.arcs a")) {
    for (const name of ["mouseenter", "focus"]) link.addEventListener(name, () => show(link.dataset.id));
    for (const name of ["mouseleave", "blur"]) link.addEventListener(name, () => show(null));
  }
})();
