"use strict";
// The pages work without this. It keeps the content up to date, and copies statements.

const main = document.getElementById("content");
const connection = document.getElementById("connection");

// Make one element like another, and leave alone what is equal: the focus, the selection and the scroll position stay.
function update(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  updateChildren(old, fresh);
}

function updateChildren(old, fresh) {
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((child, place) => (place < before.length ? update(before[place], child) : old.append(child)));
  before.slice(after.length).forEach((child) => child.remove());
}

// The parser makes no element of a text that the server has escaped.
function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").body;
  updateChildren(main, wrapped(fresh));
}

function wrapped(body) {
  const made = document.createElement("main");
  made.append(document.createTextNode("\n"), ...[...body.childNodes].map((node) => document.importNode(node, true)));
  return made;
}

function follow() {
  const events = new EventSource(document.body.dataset.events);
  events.addEventListener("open", () => { connection.textContent = "live"; });
  events.addEventListener("message", (event) => show(JSON.parse(event.data)));
  // The browser connects again by itself; until then the page says that it shows old values.
  events.addEventListener("error", () => { connection.textContent = "not live: what is shown is old"; });
  window.addEventListener("pagehide", () => events.close());
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    button.removeAttribute("aria-label");
  } catch {
    window.getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
  }
});

if (document.body.dataset.events) follow();
