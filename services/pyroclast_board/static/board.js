// Keeps an open page current: ages count on, parts that changed are replaced, forms and lists are fetched in place.
// Without this script every page works by links and forms.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const waiting = new Map(); // rows that have come before the order that says where they belong
  let source = null;
  let seen = "";

  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  function duration(seconds) {
    const index = units.findIndex(([size]) => seconds >= 2 * size);
    const [size, name] = units[index < 0 ? 3 : index];
    return `${Math.max(0, Math.floor(seconds / size))}${name} ago`;
  }
  function tick() {
    for (const each of document.querySelectorAll("time[data-since]")) {
      const text = duration((Date.now() - Date.parse(each.dateTime)) / 1000);
      if (each.textContent !== text) {
        each.title ||= each.textContent;
        each.textContent = text;
      }
    }
  }

  function element(html, parent) {
    const template = document.createElement("template");
    template.innerHTML = parent === "row" ? `<table><tbody>${html}</tbody></table>` : html;
    return parent === "row" ? template.content.querySelector("tr") : template.content;
  }
  function keepingFocus(change) {
    const focused = document.activeElement;
    const target = focused?.getAttribute("href");
    change();
    if (target && !focused.isConnected) {
      [...main().querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === target)?.focus();
    }
  }
  // Makes a part of the page like a fresh one and leaves what is equal: focus, scroll positions and opened details stay,
  // and only what changed is laid out again.
  function morph(old, fresh) {
    if (old.nodeName !== fresh.nodeName || (old.id ?? "") !== (fresh.id ?? "")) {
      old.replaceWith(fresh);
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else {
      for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      for (const { name } of [...old.attributes]) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
      if (old.matches("tbody[data-rows]")) old.replaceChildren(...fresh.children);
      else morphChildren(old, fresh);
      if (old.matches("input, select") && old !== document.activeElement) old.value = fresh.value;
    }
  }
  function morphChildren(old, fresh) {
    const before = [...old.childNodes];
    const after = [...fresh.childNodes];
    after.forEach((child, index) => (before[index] ? morph(before[index], child) : old.append(child)));
    before.slice(after.length).forEach((child) => child.remove());
  }
  function arrange(body, rows) {
    const kept = new Set(rows);
    for (const row of [...body.rows]) if (!kept.has(row)) row.remove();
    let next = body.firstElementChild;
    for (const row of rows) {
      if (row === next) next = next.nextElementSibling;
      else body.insertBefore(row, next);
    }
  }
  function apply([kind, section, id, content]) {
    const place = document.getElementById(section);
    if (!place) return;
    if (kind === "section") {
      morphChildren(place, element(content));
    } else if (kind === "head") {
      morph(place.querySelector("thead tr"), element(content, "row"));
    } else if (kind === "row") {
      const old = document.getElementById(id);
      if (old) morph(old, element(content, "row"));
      else waiting.set(id, element(content, "row"));
    } else {
      const rows = content.map((each) => document.getElementById(each) ?? waiting.get(each)).filter(Boolean);
      arrange(place.querySelector("tbody[data-rows]"), rows);
      waiting.clear();
    }
  }

  function disconnect() {
    source?.close();
    source = null;
  }
  function connect() {
    disconnect();
    const { live, version } = main().dataset;
    if (!live || document.hidden) return;
    const url = new URL(live, location.href);
    url.searchParams.set("seen", seen || version);
    source = new EventSource(url);
    source.onopen = () => { if (document.body.dataset.away) { delete document.body.dataset.away; say(""); } };
    source.onmessage = (event) => {
      seen = event.lastEventId;
      keepingFocus(() => JSON.parse(event.data).forEach(apply));
      tick();
    };
    source.addEventListener("reload", () => { disconnect(); swap(location.href); });
    source.onerror = () => {
      if (document.body.dataset.away) return;
      document.body.dataset.away = "yes";
      say(`Not connected since ${new Date().toISOString().slice(11, 19)}: what is shown may be old.`);
    };
  }
  function say(text) {
    document.getElementById("age").textContent = text;
  }

  let latest = 0;
  async function swap(address) {
    const mine = ++latest;
    let answer;
    try {
      answer = await fetch(address, { headers: { Accept: "text/html" } });
    } catch {
      location.assign(address);
      return;
    }
    const text = await answer.text();
    if (mine !== latest) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("main");
    await new Promise((done) => setTimeout(done)); // so that neither part holds up a key for long
    if (mine !== latest) return;
    if (!answer.ok || !fresh || !page.querySelector("nav")) {
      location.assign(address);
      return;
    }
    morph(main(), fresh);
    document.title = page.title;
    seen = "";
    waiting.clear();
    tick();
    connect();
  }
  function go(address) {
    history.pushState(null, "", address);
    return swap(address);
  }
  function submit(form) {
    const fields = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    return go(`${form.getAttribute("action")}?${fields}`);
  }
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-swap]")) return;
    event.preventDefault();
    submit(event.target);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("form[data-swap] select")) submit(event.target.form);
  });
  let typing = 0;
  document.addEventListener("input", (event) => {
    if (!event.target.matches('form[data-swap] input[type="search"]')) return;
    clearTimeout(typing);
    typing = setTimeout(() => submit(event.target.form), 250);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-swap]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(link.href);
  });
  addEventListener("popstate", () => {
    document.activeElement?.blur(); // what was typed there is of the page that was left
    swap(location.href);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, select, textarea")) return;
    const place = document.querySelectorAll("header nav a")[Number(event.key) - 1];
    if (event.key === "?") document.getElementById("help").showModal();
    else if (event.key === "/") document.querySelector('input[type="search"], main form input')?.focus();
    else if (place) location.assign(place.href);
    else return;
    event.preventDefault();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  addEventListener("pagehide", disconnect);
  setInterval(tick, 1000);
  tick();
  connect();
})();
