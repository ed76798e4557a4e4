// Every fault of a page's layout, as lines of text; empty where all of it can be read.
() => {
  const faults = [];
  const page = document.documentElement;
  const name = (e) => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + (typeof e.className === 'string' && e.className ? '.' + e.className.trim().split(/\s+/).join('.') : '');
  const told = (t) => JSON.stringify(t.trim().slice(0, 40));
  if (page.scrollWidth > page.clientWidth) faults.push(`the page is ${page.scrollWidth} wide in ${page.clientWidth}`);

  // Nothing is cut but what scrolls by design.
  for (const e of document.body.querySelectorAll('*')) {
    if (e.closest('svg') || e.matches('script, style')) continue;
    const style = getComputedStyle(e);
    if (style.display === 'none' || style.display === 'inline' || !e.getClientRects().length) continue;
    if (e.matches('.scroll')) continue;
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0) faults.push(`${name(e)} holds ${e.scrollWidth} in ${e.clientWidth}`);
    if (style.overflowY !== 'visible' && e.scrollHeight > e.clientHeight + 1) faults.push(`${name(e)} is cut below`);
  }

  // No text lies on another.
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest('script, style, title')) continue;
    if (!parent.checkVisibility({contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true})) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      // Letters are lower than their line: two lines may touch, letters may not.
      const inset = r.height * 0.2;
      boxes.push({node, left: r.left, right: r.right, top: r.top + inset, bottom: r.bottom - inset, text: node.data});
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++) {
      const a = boxes[i], b = boxes[j];
      if (a.node === b.node) continue;
      if (a.left < b.right - 1 && b.left < a.right - 1) faults.push(`${told(a.text)} lies on ${told(b.text)}`);
    }
  }
  // Text is where people look: inside the page, unless its table scrolls.
  for (const b of boxes) {
    if (b.node.parentElement.closest('.scroll')) continue;
    if (b.left < -1 || b.right > page.clientWidth + 1) faults.push(`${told(b.text)} is outside the page`);
  }

  // What is drawn stays in its drawing, and words of drawings are not on one another.
  for (const svg of document.querySelectorAll('svg:not(.definitions)')) {
    if (!svg.checkVisibility({contentVisibilityAuto: true})) continue;
    const frame = svg.getBoundingClientRect();
    if (frame.width < 4 || frame.height < 4) faults.push(`${name(svg)} has no room`);
    const words = [...svg.querySelectorAll('text')].map((t) => t.getBoundingClientRect());
    const shapes = [...svg.querySelectorAll('rect')].map((t) => t.getBoundingClientRect());
    for (const r of [...words, ...shapes]) {
      if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.top < frame.top - 1 || r.bottom > frame.bottom + 1) {
        faults.push(`something is outside ${name(svg)}: ${Math.round(r.left)}–${Math.round(r.right)} in ${Math.round(frame.left)}–${Math.round(frame.right)}`);
        break;
      }
    }
    words.forEach((a, i) => words.slice(i + 1).forEach((b) => {
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) faults.push(`words on words in ${name(svg)}`);
    }));
  }
  return faults;
}
