// Sorts a table by the raw numbers in data-v when a heading is pressed, and copies it as CSV in
// which no cell can be taken for a formula. The page reads the same without any of this.
(function () {
  "use strict";
  function key(row, column) {
    var cell = row.cells[column];
    var raw = cell.getAttribute("data-v");
    return raw === null ? cell.textContent.trim() : raw;
  }
  function compare(a, b) {
    var x = Number(a), y = Number(b);
    return a !== "" && b !== "" && !isNaN(x) && !isNaN(y) ? x - y : a.localeCompare(b, "en");
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      if (!head.hasAttribute("data-sort")) { return; }
      // not a <button>: browsers leave those out of headings that paper repeats
      var button = document.createElement("span");
      button.setAttribute("role", "button");
      button.tabIndex = 0;
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      function sort() {
        var up = head.getAttribute("aria-sort") === "descending";
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        var body = table.tBodies[0];
        Array.prototype.slice.call(body.rows)
          .map(function (row, i) { return [row, i]; })
          .sort(function (a, b) {
            return (up ? 1 : -1) * compare(key(a[0], column), key(b[0], column)) || a[1] - b[1];
          })
          .forEach(function (pair) { body.appendChild(pair[0]); });
      }
      button.addEventListener("click", sort);
      button.addEventListener("keydown", function (event) {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); }
      });
    });
  });
  function field(text) {
    var number = text !== "" && !isNaN(Number(text));
    var safe = !number && /^[=+\-@\t\r\n]/.test(text) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
  }
  function csv(table) {
    return Array.prototype.map.call(table.querySelectorAll("thead tr, tbody tr"), function (row) {
      return Array.prototype.filter.call(row.cells, function (cell) {
        return !cell.classList.contains("picture");
      }).map(function (cell) {
        var raw = cell.getAttribute("data-v");
        return field(raw === null ? cell.textContent.trim().replace(/\s+/g, " ") : raw);
      }).join(",");
    }).join("\n") + "\n";
  }
  // Details stand open for whoever has no script and for paper; on the screen they wait.
  var details = Array.prototype.slice.call(document.querySelectorAll("details"));
  function open(wanted) { details.forEach(function (one) { one.open = wanted; }); }
  open(false);
  window.addEventListener("beforeprint", function () { open(true); });
  window.addEventListener("afterprint", function () { open(false); });
  document.querySelectorAll("button.copy").forEach(function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var text = csv(document.getElementById(button.getAttribute("data-table")));
      button.setAttribute("data-copied", text);
      var area = document.createElement("textarea");
      area.value = text;
      document.body.appendChild(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.textContent = "Copied";
    });
  });
})();
