/* Ages that are up to date, sorted columns, commands to copy, the search, and one part of a long table at a time.
   Without it the page shows all hosts and instances, but for the packed table of a very large fleet. */
(function () {
  "use strict";
  const PAGE = 200, HITS = 50;
  const by = id => document.getElementById(id);
  const all = (selector, node) => [...(node || document).querySelectorAll(selector)];

  /* Ages. */
  function age(seconds) {
    for (const [unit, size, least] of [["days", 86400, 2], ["h", 3600, 2], ["min", 60, 1]]) {
      if (seconds >= least * size) { return Math.floor(seconds / size) + " " + unit; }
    }
    return "less than a minute";
  }
  const agos = all(".ago").map(node => [node, Number(node.dataset.seconds)]);
  function refresh() {
    const now = Date.now() / 1000;
    for (const [node, at] of agos) {
      node.textContent = age(Math.max(now - at, 0)) + " ago";
      if (node.nextSibling && / this page was written/.test(node.nextSibling.data)) {
        node.nextSibling.data = node.nextSibling.data.replace(" this page was written", "");
      }
    }
  }
  refresh();
  setInterval(refresh, 30000);

  /* Commands. */
  function copy(code) {
    if (navigator.clipboard && window.isSecureContext) { return navigator.clipboard.writeText(code.textContent); }
    getSelection().selectAllChildren(code);
    document.execCommand("copy");
    return Promise.resolve();
  }
  all("code.command").forEach(code => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy: " + code.textContent);
    button.addEventListener("click", () => {
      copy(code).then(() => { button.textContent = "Copied"; }, () => { getSelection().selectAllChildren(code); });
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    code.after(" ", button);
  });

  /* What a cell is sorted by: a number, or else its text. */
  const UNITS = { MiB: 1, GiB: 1024, TiB: 1024 ** 2, PiB: 1024 ** 3, s: 1, min: 60, h: 3600 };
  const names = new Intl.Collator("en", { numeric: true });
  function key(text) {
    const share = /\((\d+)\s%\)/.exec(text);
    if (share) { return Number(share[1]); }
    const amount = /^\s*(-?[\d,]+(?:\.\d+)?)(?: ([A-Za-z]+))?\s*$/.exec(text);
    if (amount && (!amount[2] || UNITS[amount[2]])) { return Number(amount[1].replaceAll(",", "")) * (UNITS[amount[2]] || 1); }
    return text.trim();
  }
  function compare(one, other) {
    if ((one === "–") !== (other === "–")) { return one === "–" ? 1 : -1; }
    const numbers = (typeof one === "number") + (typeof other === "number");
    if (numbers === 2) { return one - other; }
    return numbers ? (typeof one === "number" ? -1 : 1) : names.compare(one, other);
  }
  function sorted(items, keyOf, direction) {
    return items.map(item => [keyOf(item), item])
      .sort((one, other) => ([one[0], other[0]].includes("–") ? 1 : direction) * compare(one[0], other[0]))
      .map(pair => pair[1]);
  }
  /* Makes the headings of a table buttons; order(column, direction) sorts. */
  function sortable(table, order) {
    if (!table.tHead || table.dataset.sortable) { return; }
    table.dataset.sortable = "yes";
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        headings.forEach(each => each.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
        order(column, direction);
      });
    });
  }
  function sortableRows(table) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2) { return; }
    sortable(table, (column, direction) => {
      body.append(...sorted([...body.rows], row => key(row.cells[column].textContent), direction));
    });
  }
  document.addEventListener("toggle", event => { all("table", event.target).forEach(sortableRows); }, true);

  /* The hosts: those of the table, or of the text of a large fleet, which may be packed. */
  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), each => each.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }
  const packed = by("hosts-packed"), source = packed ? by("hosts-waiting") : by("hosts-source");
  if (packed) { unpacked(packed.content.textContent).then(begin); } else { begin(source?.textContent); }

  /* text: of the table of a large fleet. */
  function begin(text) {
    const pager = by("pager"), page = source ? PAGE : Infinity;
    let table = by("hosts-table"), hosts = [], shown = [], first = 0;
    if (source) {
      const parts = text.split('<tbody class="host">');
      const holder = document.createElement("div");
      holder.innerHTML = parts.shift();
      table = holder.querySelector("table");
      source.after(table);
      hosts = parts.map(html => ({ html: html, id: /<tr id="([^"]*)"/.exec(html)[1] }));
      source.remove();
      packed?.remove();
    } else if (table) {
      hosts = [...table.tBodies].map(node => ({ node: node, id: node.rows[0].id }));
    }
    all("table").forEach(each => { if (each !== table && !table?.contains(each)) { sortableRows(each); } });

    const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&#34;": "\"", "&#39;": "'", "&quot;": "\"", "&nbsp;": " " };
    function plain(html) {
      const text = html.replace(/<[^>]*>/g, " ");
      return text.includes("&") ? text.replace(/&(lt|gt|amp|quot|nbsp|#34|#39);/g, each => ENTITIES[each]) : text;
    }
    function html(host) { return host.html ?? (host.html = host.node.innerHTML); }
    function node(host) {
      if (!host.node) {
        host.node = document.createElement("tbody");
        host.node.className = "host";
        host.node.innerHTML = host.html;
      }
      return host.node;
    }
    /* The row of the host itself, without its instances. */
    function own(host) { return html(host).slice(0, html(host).indexOf("</tr>")); }
    function cells(row) { return row.split(/<t[hd]\b[^>]*>/).slice(1).map(cell => plain(cell).replace(/\s+/g, " ").trim()); }
    function nameOf(host) {
      return host.name ?? (host.name = plain(/<th\b[^>]*>([\s\S]*?)(?:<small|<\/th>)/.exec(own(host))[1]).trim());
    }
    /* Where an instance is; a host that is down does not show what runs there. */
    function whereOf(host) {
      if (host.nowhere) { return "on no host"; }
      return "on " + nameOf(host) + (own(host).includes('class="state down"') ? " (down)" : "");
    }

    function show(from) {
      const end = Math.min(from + page, shown.length);
      first = from;
      const there = [...table.tBodies], wanted = shown.slice(from, end).map(node);
      if (wanted.length !== there.length || wanted.some((each, place) => each !== there[place])) {
        there.forEach(body => body.remove());
        table.append(...wanted);
      }
      pager.hidden = shown.length <= page;
      by("back").disabled = from === 0;
      by("next").disabled = end >= shown.length;
      by("pager-says").textContent = `Hosts ${(from + 1).toLocaleString("en")}–${end.toLocaleString("en")} of ${shown.length.toLocaleString("en")}`;
    }
    let order = list => list;
    function arrange(wanted) {
      shown = order(wanted);
      show(0);
    }
    if (table) {
      shown = hosts;
      if (source) { show(0); }
      by("back").addEventListener("click", () => { show(Math.max(first - page, 0)); table.scrollIntoView(); });
      by("next").addEventListener("click", () => { show(first + page); table.scrollIntoView(); });
      sortable(table, (column, direction) => {
        order = list => sorted(list, host => (host.keys ?? (host.keys = cells(own(host)).map(key)))[column], direction);
        arrange(shown);
      });
      window.addEventListener("beforeprint", () => { if (source) { table.append(...shown.slice(first + page).map(node)); } });
      window.addEventListener("afterprint", () => { if (source) { show(first); } });
    }

    /* The search. */
    const box = by("filter"), says = by("filter-says"), hits = by("hits"), map = all(".map li");
    const nowhere = by("nowhere") ? { node: by("nowhere"), nowhere: true } : null;
    const ROW = /<tr id="(i-[^"]*)"[^>]*>([\s\S]*?)<\/tr>/g;
    /* What is searched: of the host itself, and of each of its instances. */
    function texts(host) {
      if (host.own === undefined) {
        host.own = host.nowhere ? "" : plain(own(host)).toLowerCase();
        host.rows = [...html(host).matchAll(ROW)].map(([, id, row]) => ({ id: id, row: row, text: plain(row).toLowerCase() }));
      }
      return host;
    }
    /* Before the first key, a part at a time. */
    function prepare(from) {
      hosts.slice(from, from + PAGE).forEach(texts);
      if (from + PAGE < hosts.length) { setTimeout(() => prepare(from + PAGE), 20); }
    }
    if (source) { setTimeout(() => prepare(0), 500); }
    function hit(id, label, text) {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = "#" + id;
      link.textContent = label;
      item.append(link, " " + text);
      return item;
    }
    function search() {
      const wanted = box.value.trim().toLowerCase(), found = [], matching = [];
      let hostCount = 0, instanceCount = 0;
      for (const host of wanted ? [...hosts, ...(nowhere ? [nowhere] : [])] : []) {
        texts(host);
        let any = false;
        if (host.own.includes(wanted)) {
          hostCount += 1;
          any = true;
          if (found.length < HITS) {
            const [, state, , , , count] = cells(own(host));
            found.push(hit(host.id, nameOf(host), `host, ${state}, ${count} instances`));
          }
        }
        for (const each of host.rows) {
          if (!each.text.includes(wanted)) { continue; }
          instanceCount += 1;
          any = true;
          if (found.length < HITS) {
            const [name, state, address] = cells(each.row);
            found.push(hit(each.id, name, [whereOf(host), state, address].filter(part => part && part !== "–").join(", ")));
          }
        }
        if (any && !host.nowhere) { matching.push(host); }
      }
      const many = (count, word) => count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");
      says.textContent = wanted ? many(hostCount, "host") + " and " + many(instanceCount, "instance") + " match" +
        (hostCount + instanceCount > HITS ? `; the first ${HITS}:` : "") : "";
      hits.replaceChildren(...found);
      hits.hidden = !found.length;
      if (table) {
        const ids = new Set(matching.map(host => "#" + host.id));
        map.forEach(cell => { cell.hidden = Boolean(wanted) && !ids.has(cell.firstElementChild.getAttribute("href")); });
        arrange(wanted ? matching : hosts);
      }
    }
    let wait = null;
    box.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(search, 150);
    });
    box.addEventListener("keydown", event => {
      if (event.key === "Escape") { box.value = ""; search(); }
    });
    by("search").hidden = false;

    /* A link to a host or an instance, which may be folded, or not in this part of the table. */
    function go() {
      const id = decodeURIComponent(location.hash.slice(1));
      if (!id) { return; }
      all(".here").forEach(each => each.classList.remove("here"));
      if (!by(id) && table) {
        const mark = `<tr id="${id}"`;
        const host = hosts.find(each => each.id === id) || hosts.find(each => html(each).includes(mark));
        if (!host) { return; }
        if (!shown.includes(host)) { box.value = ""; search(); }
        show(Math.floor(shown.indexOf(host) / page) * page || 0);
      }
      const target = by(id);
      if (!target) { return; }
      for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) { fold.open = true; }
      if (target.matches("tr")) { target.classList.add("here"); }
      if (target.parentElement.matches(".host")) { all("details", target.parentElement).forEach(each => { each.open = true; }); }
      target.scrollIntoView({ block: target.matches("tr") ? "center" : "start" });
    }
    window.addEventListener("hashchange", go);
    document.addEventListener("click", event => {
      const link = event.target.closest('a[href^="#"]');
      if (link && link.getAttribute("href") === location.hash) { setTimeout(go); }
    });
    go();
  }
}());
