# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page in headless Chromium: without errors, with the store's figures, on a phone, in the dark,
on paper.
"""

from __future__ import annotations

import colorsys
import re
import shutil
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._report import formatting, html
from ansible_collections.drover.compute.tests.unit.report import browser as chromium
from ansible_collections.drover.compute.tests.unit.report import pages
from ansible_collections.drover.compute.tests.unit.report.reading import truth
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

pytestmark = pytest.mark.long

FIGURES = """
const found = {};
for (const row of (arguments[0] ? new DOMParser().parseFromString(arguments[0], 'text/html') : document).querySelectorAll(
    '#hosts-table > tbody > tr[id^="host-"]')) {
  const host = row.querySelector('th').firstChild.textContent.trim();
  found[host] = {};
  for (const each of row.querySelectorAll('data:not([class$=_physical])')) found[host][each.className] = each.value;
}
return found;
"""
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
# For every visible text: the contrast with the background, if the background has one colour.
CONTRASTS = """
function parts(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function light(colour) {
  const [r, g, b] = parts(colour).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(node) {
  for (; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor, alpha = parts(colour)[3];
    if (alpha === undefined || alpha > 0) return colour;
  }
  return 'rgb(255, 255, 255)';
}
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || ['SCRIPT', 'STYLE', 'title'].includes(node.tagName)) continue;
  const style = getComputedStyle(node);
  const one = light(node.namespaceURI.endsWith('svg') ? style.fill : style.color), other = light(behind(node));
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (contrast < 4.5) poor.push(node.tagName + ' ' + node.className + ' ' + contrast.toFixed(2));
}
return poor;
"""


@pytest.fixture(scope="module")
def browser():
    with chromium.running() as found:
        yield found


@pytest.fixture(scope="module")
def stores(prepared_sqlite, tmp_path_factory):
    """Return a function that gives the path of the page of a store, and the store's URL; it makes
    each once."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def make(name, plans=()):
        if name not in made:
            shutil.copyfile(prepared_sqlite, folder / f"{name}.db")
            url = getattr(pages, name)(f"sqlite:///{folder / name}.db")
            (folder / f"{name}.html").write_bytes(
                html.page(pages.view(url, plans=plans), pages.NOW)
            )
            made[name] = (folder / f"{name}.html", url)
        return made[name]

    return make


@pytest.fixture
def small(stores):
    return stores("small", [pages.plan()])


@pytest.fixture
def decided(stores):
    return stores("decided")


@pytest.fixture(autouse=True)
def usual(browser):
    browser.size(1280)
    browser.media()


def test_no_error_and_the_stores_figures(browser, small):
    path, url = small
    browser.open(path)
    assert browser.console() == []
    assert browser.ask(FIGURES) == truth(url)
    # The browser did not run the content of a name.
    assert browser.ask("return document.querySelectorAll('script').length") == 1


def test_its_policy_stops_what_is_not_its_own(browser, small, tmp_path):
    path = tmp_path / "injected.html"
    text = small[0].read_text()
    path.write_text(
        text.replace(
            "</main>", "<script>document.title = 'caught'</script><b style='color:red'>x</b></main>"
        )
    )
    browser.open(path)
    assert browser.ask("return document.title") == "Fleet report"
    assert any("Content Security Policy" in line for line in browser.console())


@pytest.mark.parametrize("store", ["small", "decided"])
@pytest.mark.parametrize("width", [320, 360, 768])
def test_no_page_is_wider_than_a_phone(browser, request, width, store):
    browser.size(width, 700, phone=True)
    browser.open(request.getfixturevalue(store)[0])
    browser.ask(OPEN_ALL)
    assert browser.ask("return document.documentElement.scrollWidth") <= width
    assert browser.console() == []


@pytest.mark.parametrize("store", ["small", "decided"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(browser, request, scheme, store):
    browser.media(prefers_color_scheme=scheme)
    browser.open(request.getfixturevalue(store)[0])
    back = browser.ask("return getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", back)[0]) < 64) == (scheme == "dark")
    # Folded parts count too.
    browser.ask(OPEN_ALL)
    assert browser.ask(CONTRASTS) == []


def test_paper(browser, small):
    browser.open(small[0])
    assert browser.pdf().startswith(b"%PDF")
    browser.media("print", prefers_color_scheme="dark")
    assert (
        browser.ask("return getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert browser.ask("return getComputedStyle(document.querySelector('#bar')).display") == "none"
    assert browser.ask(CONTRASTS) == []


def type_into_filter(browser, text):
    """Type and wait until the page has dealt with it."""
    return browser.ask(
        """
        const box = document.getElementById('filter');
        box.value = arguments[0];
        box.dispatchEvent(new Event('input'));
        return new Promise(done => setTimeout(() => done({
          hosts: [...document.querySelectorAll('#hosts-table > tbody > tr[id]')].map(row => row.id.slice(5)),
          cells: [...document.querySelectorAll('.map li')].filter(cell => !cell.hidden).length,
          hits: [...document.querySelectorAll('#hits li')].map(hit => hit.textContent),
          links: [...document.querySelectorAll('#hits a')].map(hit => hit.getAttribute('href')),
          says: document.getElementById('filter-says').textContent,
        }), 600));
        """,
        text,
    )


def test_the_search(browser, small):
    browser.open(small[0])
    assert browser.ask("return document.getElementById('search').hidden") is False
    page_state = type_into_filter(browser, "KVM1")
    assert (page_state["hosts"], page_state["cells"], page_state["hits"]) == (
        ["kvm1"],
        1,
        ["kvm1 host, up, 2 instances"],
    )
    page_state = type_into_filter(browser, "web2")
    assert page_state["hits"] == ["web2 on kvm2, running"] and page_state["links"] == [
        f"#i-{uuid_of('web2')}"
    ]
    assert page_state["says"] == "0 hosts and 1 instance match" and page_state["hosts"] == ["kvm2"]
    assert type_into_filter(browser, "cache")["hits"] == ["cache on kvm5 (down), running"]
    # Text of a person in a name is text here, too.
    page_state = type_into_filter(browser, "<script>alert('x')")
    assert page_state["hits"][0].startswith("<script>alert('x')</script>\"&") and page_state[
        "hosts"
    ] == ["kvm2"]
    page_state = type_into_filter(browser, "")
    assert (
        len(page_state["hosts"]),
        page_state["cells"],
        page_state["hits"],
        page_state["says"],
    ) == (6, 6, [], "")
    assert browser.console() == []


def test_a_hit_unfolds_its_host(browser, small):
    browser.open(small[0])
    type_into_filter(browser, "web2")
    browser.ask("document.querySelector('#hits a').click()")
    opened, top, marked_text = browser.ask("""
        return new Promise(done => setTimeout(() => {
          const row = document.querySelector('tr.here');
          done([row.closest('details').open, row.getBoundingClientRect().top, row.textContent]);
        }, 200));
        """)
    assert (
        opened
        and "web2" in marked_text
        and browser.ask("return document.getElementById('bar').offsetHeight") < top < 900
    )


def test_columns_are_sorted(browser, small):
    """Columns sort by number, size and share, not by text; first up, then down. The keyboard works
    too, because the heads are buttons."""
    browser.open(small[0])

    def press(column):
        browser.ask(
            "document.querySelectorAll('#hosts-table > thead button')[arguments[0]].click()", column
        )
        return browser.ask(
            "return [...document.querySelectorAll('#hosts-table > tbody > tr[id]')].map(row =>"
            " row.id.slice(5))"
        )

    assert press(3)[-1] == "kvm3" and press(3)[0] == "kvm3"
    heading = (
        "return document.querySelectorAll('#hosts-table > thead th')[3].getAttribute('aria-sort')"
    )
    assert browser.ask(heading) == "descending"
    assert press(0) == [f"kvm{n}" for n in range(1, 7)]
    sizes = browser.ask("""
        const table = document.querySelector('#loss table');
        table.querySelectorAll('thead button')[0].click();
        return [...table.tBodies[0].rows].map(row => row.cells[0].textContent);
        """)
    assert sizes == ["large", "small"]


def test_a_command_is_copied(browser, small):
    browser.open(small[0])
    origin = browser.ask("return location.origin")
    browser.command(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    command = browser.ask("return document.querySelector('code.command').textContent")
    assert command == "ansible-playbook drover.compute.evacuate -e drover_host=kvm5 --check", origin
    label = browser.ask("""
        document.querySelector('.copy').click();
        return new Promise(done => setTimeout(() => done(document.querySelector('.copy').textContent), 300));
        """)
    assert label == "Copied" and browser.ask("return navigator.clipboard.readText()") == command


def test_ages_stay_up_to_date(browser, small, tmp_path):
    """A page of yesterday does not say that it is four minutes old."""
    page_data, now = pages.view(small[1]), time.time()
    page_data["seen"].update(
        newest=now - 2 * 3600 - 60,
        oldest={**page_data["seen"]["oldest"], "last_seen_up": now - 50 * 3600},
    )
    path = tmp_path / "old.html"
    path.write_bytes(html.page(page_data, now - 2 * 3600 + 180))
    browser.open(path)
    said = browser.ask("return document.getElementById('ages').textContent")
    assert ", 2 h ago. Oldest: " in said and ", 2 days ago." in said and "before" not in said


def test_states_have_colours_of_their_own(browser, small):
    """Red for down, amber for disabled, blue for maintenance, in both schemes; and each has another
    shape.
    """
    for scheme in ("light", "dark"):
        browser.media(prefers_color_scheme=scheme)
        browser.open(small[0])
        for kind, hue in (
            ("down", range(15)),
            ("disabled", range(25, 50)),
            ("maintenance", range(200, 225)),
        ):
            colour, mark = browser.ask(
                "const e = document.querySelector('#hosts-table .state.' + arguments[0]);"
                "return [getComputedStyle(e).color, getComputedStyle(e, '::before').content]",
                kind,
            )
            parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
            assert round(360 * colorsys.rgb_to_hls(*parts)[0]) in hue, (scheme, kind, colour)
            assert mark == {"down": '"▲"', "disabled": '"◆"', "maintenance": '"■"'}[kind]


def test_the_heat_map_by_resource(browser, small):
    browser.open(small[0])

    def shown(letter):
        return browser.ask(
            """
            document.getElementById('by-' + arguments[0]).click();
            const cell = document.querySelector('.cell[href="#host-kvm1"]'), style = getComputedStyle(cell, '::before');
            return [style.content, getComputedStyle(cell).backgroundColor];
            """,
            letter,
        )

    by_letter = {letter: shown(letter) for letter in "fvmdp"}
    texts = {letter: each[0] for letter, each in by_letter.items()}
    assert texts == {"f": '"75"', "v": '"75"', "m": '"75"', "d": '"50"', "p": '"73"'}
    assert by_letter["d"][1] != by_letter["m"][1]


def test_the_bar_stays_in_sight(browser, small):
    browser.size(1280, 500)
    browser.open(small[0])
    browser.ask("document.getElementById('decisions').scrollIntoView()")
    assert browser.ask(
        "return [scrollY > 500, document.getElementById('bar').getBoundingClientRect().top]"
    ) == [True, 0]
    top = browser.ask(
        "return document.getElementById('decisions-title').getBoundingClientRect().bottom"
    )
    assert top > browser.ask("return document.getElementById('bar').getBoundingClientRect().bottom")


@pytest.mark.parametrize("store, hosts, instances", [("small", 6, 7), ("four_hundred", 400, 5531)])
def test_it_is_whole_without_scripts(browser, stores, store, hosts, instances):
    """The search box, which does nothing without scripts, is hidden; all rows are visible."""
    path, url = stores(store)
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(path)
        document = browser.command("DOM.getDocument", depth=0)["root"]["nodeId"]

        def count(selector):
            return len(
                browser.command("DOM.querySelectorAll", nodeId=document, selector=selector)[
                    "nodeIds"
                ]
            )

        assert (
            count("#hosts-table > tbody.host > tr[id^=host-]") == hosts
            and count("tr[id^=i-]") == instances
        )
        (box,) = browser.command("DOM.querySelectorAll", nodeId=document, selector="#search")[
            "nodeIds"
        ]
        with pytest.raises(AssertionError, match="box model"):
            browser.command("DOM.getBoxModel", nodeId=box)
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)
    browser.open(path)
    assert browser.ask(FIGURES) if store == "small" else True


def test_a_decision_is_opened_by_the_keyboard(browser, decided):
    browser.open(decided[0])
    assert browser.ask("return document.querySelectorAll('details.decision[open]').length") == 0
    browser.ask("document.querySelectorAll('details.decision summary')[1].focus()")
    browser.command(
        "Input.dispatchKeyEvent",
        type="keyDown",
        key=" ",
        code="Space",
        text=" ",
        windowsVirtualKeyCode=32,
    )
    browser.command(
        "Input.dispatchKeyEvent", type="keyUp", key=" ", code="Space", windowsVirtualKeyCode=32
    )
    assert browser.ask("return document.querySelectorAll('details.decision')[1].open")
    assert "No valid host for big" in browser.ask(
        "return document.querySelectorAll('details.decision')[1].innerText"
    )
    assert browser.console() == []


def test_names_and_landmarks_for_a_screen_reader(browser, small):
    browser.open(small[0])
    nodes = browser.command("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(
                node.get("name", {}).get("value", "")
            )
    for landmark in ("banner", "navigation", "main", "contentinfo", "search"):
        assert len(roles[landmark]) == 1, landmark
    assert (
        all(roles["table"])
        and all(roles["image"])
        and all(roles["link"])
        and all(roles["searchbox"])
    )
    assert any(
        re.match("kvm5: vCPU 25 %, memory 12 %, disk 0 %; down; 1 instance$", name)
        for name in roles["link"]
    )


def test_the_keyboard_reaches_everything(browser, small):
    browser.open(small[0])
    seen = []
    for _step in range(12):
        browser.command(
            "Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9
        )
        browser.command(
            "Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9
        )
        seen.append(
            browser.ask(
                "const e = document.activeElement; return [e.textContent,"
                " getComputedStyle(e).outlineStyle]"
            )
        )
    assert seen[0][0] == "Skip to the report" and seen[1][0] == "Summary"
    assert {outline for _text, outline in seen} == {"solid"}


SOURCE = re.compile(r'<noscript id="hosts-source">(.*?)</noscript>', re.S)


def test_a_large_fleet_is_shown_in_parts(browser, stores):
    """With all figures in the page, and links to hosts and instances of other parts."""
    path, url = stores("large")
    browser.open(path)
    assert browser.console() == []
    expected = truth(url)
    (source,) = SOURCE.findall(path.read_text())
    assert len(expected) == 1000 and browser.ask(FIGURES, source) == expected
    shown = browser.ask(FIGURES)
    assert list(shown) == [f"kvm{number:04}" for number in range(200)] and shown == {
        name: expected[name] for name in shown
    }
    says = "return document.getElementById('pager-says').textContent"
    browser.ask("document.getElementById('next').click()")
    assert (
        browser.ask(says) == "Hosts 201–400 of 1,000" and list(browser.ask(FIGURES))[0] == "kvm0200"
    )
    browser.ask(f"location.hash = '#i-{uuid_of('vm-0918-3')}'")
    script = (
        "return new Promise(done => setTimeout(() =>"
        " done(document.querySelector('.here').textContent), 400))"
    )
    assert "vm-0918-3" in browser.ask(script) and browser.ask(says) == "Hosts 801–1,000 of 1,000"
    browser.ask("location.hash = '#host-kvm0300'")
    assert "kvm0300" in browser.ask(script) and browser.ask(says) == "Hosts 201–400 of 1,000"
    # The sum counts all hosts, not only the visible hosts.
    browser.ask("document.querySelectorAll('#hosts-table > thead button')[5].click()")
    browser.ask("document.querySelectorAll('#hosts-table > thead button')[5].click()")
    first = browser.ask(
        "return [...document.querySelectorAll('#hosts-table data.instances')].slice(0, 48).map(each"
        " => each.value)"
    )
    assert first == ["20"] * 47 + ["19"]
    browser.ask("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.ask(FIGURES) == expected
    browser.ask("window.dispatchEvent(new Event('afterprint'))")
    assert len(browser.ask(FIGURES)) == 200
    found = type_into_filter(browser, "vm-0020-")
    assert found["hosts"] == ["kvm0020"] and found["says"] == "0 hosts and 20 instances match"
    assert found["hits"][0] == "vm-0020-0 on kvm0020, running"


def test_names_are_texts_in_a_large_fleet_too(browser, small, tmp_path, monkeypatch):
    """The script puts the rows of a large fleet into the page; a name among them is not markup."""
    monkeypatch.setattr(html, "MOST_HOSTS", 3)
    path = tmp_path / "large.html"
    path.write_bytes(html.page(pages.view(small[1]), pages.NOW))
    browser.open(path)
    assert browser.ask(FIGURES) == truth(small[1])
    assert browser.ask("return document.querySelectorAll('script, [onerror]').length") == 1
    name = formatting.clean(pages.NASTY)
    (hit,) = type_into_filter(browser, "alert(")["hits"]
    assert hit == f"{name} on kvm2, running"
    row = browser.ask(
        f"return document.getElementById('i-{uuid_of(pages.NASTY)}').cells[0].textContent"
    )
    assert row == name and browser.console() == []


#: JavaScript that types into the search and measures how long the page works then.
SEARCH_MS = """
const box = document.getElementById("filter"), says = document.getElementById("filter-says");
box.value = arguments[0];
says.textContent = "";
return new Promise(done => {
  new MutationObserver((changes, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun - 150)));
  }).observe(says, { childList: true });
  const begun = performance.now();
  box.dispatchEvent(new Event("input"));
});
"""


def test_ten_thousand_hosts_open_within_three_seconds(browser, tmp_path, record_property):
    """Return a page of a thousand hosts, copied: with 100,000 instances, which the browser reads as
    from a real fleet."""
    found = pages.many(10_000, 10)
    path = tmp_path / "ten-thousand.html"
    path.write_bytes(html.page(found, pages.NOW))
    browser.command("Performance.enable", timeDomain="threadTicks")
    browser.open(path)
    work = {
        each["name"]: each["value"] for each in browser.command("Performance.getMetrics")["metrics"]
    }
    assert browser.console() == []
    spent = browser.ask("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    record_property("load_ms", round(spent))
    record_property("processor_ms", round(1000 * work["TaskDuration"]))
    print(
        f"10,000 hosts: loaded in {spent:.0f} ms, of which the processor worked"
        f" {1000 * work['TaskDuration']:.0f} ms"
    )
    # The clock time depends on the load of the machine.
    assert 1000 * work["TaskDuration"] < 3000
    assert path.stat().st_size < 12e6
    assert (
        browser.ask("return document.getElementById('pager-says').textContent")
        == "Hosts 1–200 of 10,000"
    )
    assert (
        browser.ask("return document.querySelectorAll('#hosts-packed, #hosts-waiting').length") == 0
    )
    result = type_into_filter(browser, "vm-9999-")
    assert result["hosts"] == ["kvm9999"] and len(result["hits"]) == 10
    for search_text in ("vm-9999-", "1"):
        record_property(f"search_ms_{search_text}", browser.ask(SEARCH_MS, search_text))
        print(
            f"search for {search_text}: {browser.ask(SEARCH_MS, search_text):.0f} ms after the"
            " pause of 150 ms"
        )
