// Filters the table of claims; without it the whole table is shown. The filter is kept in the address, so that it can be sent.
(() => {
  const form = document.querySelector("form.filter");
  const rows = [...document.querySelectorAll("table.claims tbody tr")];
  const field = (id) => document.getElementById(id);
  const names = ["q", "paper", "verdict", "kind"];

  function apply(remember) {
    const words = field("q").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const keep =
        words.every((word) => row.dataset.text.includes(word)) &&
        ["paper", "verdict", "kind"].every((k) => !field(k).value || row.dataset[k] === field(k).value) &&
        (!field("proved").checked || row.dataset.proved === "1");
      row.hidden = !keep;
      shown += keep;
    }
    field("count").textContent = shown === rows.length ? `${shown} claims` : `${shown} of ${rows.length} claims`;
    field("nothing").hidden = shown > 0;
    if (remember) {
      const query = new URLSearchParams();
      for (const name of names) if (field(name).value) query.set(name, field(name).value);
      if (field("proved").checked) query.set("proved", "1");
      try {
        history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
      } catch {
        // some browsers refuse to change the address of a page opened from disk
      }
    }
  }

  const asked = new URLSearchParams(location.search);
  for (const name of names) field(name).value = asked.get(name) ?? "";
  field("proved").checked = asked.get("proved") === "1";
  form.hidden = false;
  for (const name of ["input", "change"]) form.addEventListener(name, () => apply(true));
  form.addEventListener("submit", (event) => event.preventDefault());
  field("clear").addEventListener("click", () => {
    form.reset();
    apply(true);
    field("q").focus();
  });
  apply(false);
  if (asked.size) document.getElementById("claims").scrollIntoView();
})();
