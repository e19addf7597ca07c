// Follows the changes of the namespace, and shows the page again when something has changed. Without this script the page can be
// read, and its forms work. One tab has the stream and tells the others what has changed.
'use strict';
(() => {
  const base = document.documentElement.dataset.base;
  const main = document.getElementById('main');
  const age = document.getElementById('age');
  const button = document.getElementById('pause');
  if (!main || !age || !button) return;

  const APART = 500; // The least time between two reads of the page, in ms.
  const IDLE = 15000; // After which time it is read although nothing has changed: leases and ages go on.
  const SETTLE = 1200; // How long the server may show older numbers.
  const shared = 'BroadcastChannel' in self ? new BroadcastChannel('windlass ' + base) : null;
  let isPaused = stored('windlass-paused') === '1';
  let isRead = true; // Whether what has changed is on the page.
  let isReading = false;
  let lastRead = performance.now();
  let isBroken = false;
  let stream = null;
  let wait = 500; // Before the next connection, in ms.

  function stored(name, value) {
    try {
      if (value === undefined) return sessionStorage.getItem(name);
      sessionStorage.setItem(name, value);
    } catch { /* A browser may keep nothing. */ }
    return null;
  }

  // The task of the page; a page of one task is read for its own changes only.
  const task = () => main.querySelector('[data-task]')?.dataset.task;

  // A page that costs the server a lot is read by a person only.
  const isStill = () => main.querySelector('[data-still]') !== null;

  function changed(ids) {
    const own = task();
    if (own !== undefined && ids && !ids.includes(own)) return;
    isRead = false;
    soon();
  }

  let timer = 0;
  let settling = 0;
  function soon() {
    if (timer || isPaused || document.hidden || isStill()) return;
    const left = Math.max(0, APART - (performance.now() - lastRead));
    timer = setTimeout(() => { timer = 0; read(); }, left);
  }

  async function read() {
    if (isReading || isPaused || document.hidden || isStill()) return;
    isReading = true;
    // The server reads some numbers once a second: what has changed last may come with the next read.
    if (!isRead && main.querySelector('[data-settle]')) {
      clearTimeout(settling);
      settling = setTimeout(read, SETTLE);
    }
    isRead = true;
    const begun = performance.now();
    try {
      const url = new URL(location.href);
      url.hash = '';
      const answer = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(20000) });
      if (answer.status === 401) return location.reload();
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const fresh = page.getElementById('main');
        // Paused meanwhile: the page stays as it is.
        if (fresh && !isPaused) {
          become(main, fresh);
          age.dataset.at = page.getElementById('age').dataset.at;
          lag = Date.now() - Date.parse(age.dataset.at);
          setBroken(false, 'page');
        }
      } else {
        setBroken(true, 'page');
      }
    } catch {
      isRead = false;
      setBroken(true, 'page');
    } finally {
      isReading = false;
      // A page that is slow to make is read less often.
      lastRead = performance.now() + (performance.now() - begun);
      if (!isRead) soon();
    }
  }

  // Makes an element like another, and touches only what differs: focus, selection, scroll and open details stay.
  function become(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (isEdited(old)) return;
    const keyed = new Map();
    for (const child of old.children) {
      const key = keyOf(child);
      if (key) keyed.set(key, child);
    }
    let place = old.firstChild;
    for (const node of [...fresh.childNodes]) {
      const match = matching(place, node, keyed);
      if (!match) {
        old.insertBefore(document.importNode(node, true), place);
        continue;
      }
      if (match === place) place = place.nextSibling;
      else old.insertBefore(match, place);
      if (match.nodeType !== Node.ELEMENT_NODE) {
        if (match.data !== node.data) match.data = node.data;
      } else if (!match.isEqualNode(node)) {
        become(match, node);
      }
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE
    ? node.id || (node.dataset.key && node.nodeName + ' ' + node.dataset.key) || '' : '';

  function matching(place, node, keyed) {
    const key = keyOf(node);
    if (key) {
      const known = keyed.get(key);
      return known && known.nodeName === node.nodeName ? known : null;
    }
    const isLike = place && place.nodeType === node.nodeType && place.nodeName === node.nodeName && !keyOf(place);
    return isLike ? place : null;
  }

  // What somebody types into stays as it is.
  const isEdited = (node) => node.nodeName === 'TEXTAREA' || node.nodeName === 'SELECT'
    || (node.nodeName === 'FORM' && node.contains(document.activeElement) && document.activeElement !== node);

  // The stream: one for all tabs of a browser that has locks; else one for each.
  let ids = null; // What has changed and was not reported yet: ids, or undefined for everything.
  let reporting = 0;
  function report(id) {
    if (ids === null) ids = [];
    if (id === undefined || ids?.length > 200) ids = undefined;
    else ids?.push(id);
    if (reporting) return;
    reporting = setTimeout(() => {
      reporting = 0;
      const all = ids;
      ids = null;
      shared?.postMessage({ ids: all });
      changed(all);
    }, 100);
  }

  function connect() {
    stream?.close();
    stream = new EventSource(base + '/v1/changes');
    stream.onopen = () => {
      wait = 500;
      tell(false);
      // What happened while there was no stream.
      report();
    };
    stream.addEventListener('change', (event) => report(JSON.parse(event.data).task));
    stream.addEventListener('reset', () => report());
    stream.addEventListener('end', again);
    stream.onerror = again;
  }

  function again() {
    stream?.close();
    stream = null;
    tell(true);
    setTimeout(connect, wait);
    wait = Math.min(wait * 2, 10000);
  }

  function tell(broken) {
    shared?.postMessage({ broken });
    setBroken(broken, 'stream');
  }

  const broken = { stream: false, page: false };
  function setBroken(value, part) {
    broken[part] = value;
    isBroken = broken.stream || broken.page;
    showAge();
  }

  if (shared) {
    shared.onmessage = ({ data }) => {
      if ('broken' in data) setBroken(data.broken, 'stream');
      else changed(data.ids);
    };
  }
  if (navigator.locks && shared) {
    // The lock is held as long as the tab is open; then another tab has it.
    navigator.locks.request('windlass ' + base, () => { connect(); return new Promise(() => {}); });
  } else {
    connect();
  }

  // The age of what is shown, by the clock of the server as it was when the page came.
  let lag = Date.now() - Date.parse(age.dataset.at);
  function showAge() {
    const seconds = Math.max(0, Math.round((Date.now() - lag - Date.parse(age.dataset.at)) / 1000));
    const why = isPaused ? ', updates are paused' : isBroken ? ', no connection to the server' : '';
    const text = `Data is ${seconds} s old${why}`;
    if (age.textContent !== text) age.textContent = text;
    age.classList.toggle('stale', isPaused || isBroken);
    document.documentElement.dataset.live = isPaused ? 'paused' : isBroken ? 'broken' : 'on';
  }

  function showPause() {
    button.hidden = false;
    button.textContent = isPaused ? 'Resume updates' : 'Pause updates';
    button.setAttribute('aria-pressed', String(isPaused));
    showAge();
  }

  button.addEventListener('click', () => {
    isPaused = !isPaused;
    stored('windlass-paused', isPaused ? '1' : '0');
    showPause();
    if (!isPaused) read();
  });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) { isRead = false; soon(); } });
  document.addEventListener('keydown', (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.nodeName ?? '');
    if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      document.querySelector('.search input').focus();
    }
  });
  setInterval(() => {
    showAge();
    if (performance.now() - lastRead > (isBroken ? 2000 : IDLE)) read();
  }, 1000);
  showPause();
})();
