/* Shows only the hosts and instances whose text holds what is typed. Without it everything is shown. */
(function () {
  "use strict";
  var box = document.getElementById("filter");
  if (!box) { return; }
  var says = document.getElementById("filter-says");
  var rows = Array.prototype.slice.call(document.querySelectorAll("#hosts-table tbody tr"));
  var cells = Array.prototype.slice.call(document.querySelectorAll(".map li"));
  var groups = Array.prototype.slice.call(document.querySelectorAll("#instances details"));
  var texts = null, wait = null, opened = [];

  function lower(node) { return node.textContent.toLowerCase(); }

  function read() {
    texts = {
      rows: rows.map(lower),
      groups: groups.map(function (group) {
        var inner = Array.prototype.slice.call(group.querySelectorAll("tbody tr"));
        return { rows: inner, texts: inner.map(lower), name: lower(group.querySelector("summary")) };
      }),
      places: {}
    };
    rows.forEach(function (row, number) { texts.places["#" + row.id] = number; });
  }

  function apply() {
    if (!texts) { read(); }
    var wanted = box.value.trim().toLowerCase(), hosts = 0, instances = 0, shown = {};
    rows.forEach(function (row, number) {
      var hit = texts.rows[number].indexOf(wanted) >= 0;
      row.hidden = !hit;
      if (hit) { hosts += 1; shown["#" + row.id] = true; }
    });
    cells.forEach(function (cell) { cell.hidden = !shown[cell.firstElementChild.getAttribute("href")]; });
    opened.forEach(function (group) { group.open = false; });
    opened = [];
    groups.forEach(function (group, number) {
      var of = texts.groups[number], whole = of.name.indexOf(wanted) >= 0, hits = 0;
      of.rows.forEach(function (row, place) {
        var hit = whole || of.texts[place].indexOf(wanted) >= 0;
        row.hidden = !hit;
        if (hit) { hits += 1; }
      });
      group.hidden = !whole && !hits;
      instances += hits;
      if (wanted && hits && !group.open && opened.length < 20) { group.open = true; opened.push(group); }
    });
    says.textContent = wanted ? hosts + " hosts and " + instances + " instances match" : "";
  }

  box.addEventListener("input", function () {
    clearTimeout(wait);
    wait = setTimeout(apply, 150);
  });
  document.getElementById("search").hidden = false;
}());
