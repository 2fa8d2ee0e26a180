// What is wrong with a shown page by WCAG 2.2 AA, as far as a program can find it: accessibility.py evaluates it.

const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const parsed = new Map();
function rgba(text) {
  if (!parsed.has(text)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    parsed.set(text, [r, g, b, a / 255]);
  }
  return parsed.get(text);
}
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
function background(element) {
  const layers = [];
  for (let each = element; each; each = each.parentElement) {
    const color = rgba(getComputedStyle(each).backgroundColor);
    layers.push(color);
    if (color[3] === 1) break;
  }
  const canvasColor = rgba(getComputedStyle(document.documentElement).backgroundColor);
  return layers.reverse().reduce((below, top) => over(top, below), over(canvasColor, [255, 255, 255, 1]));
}
function luminance(color) {
  const [r, g, b] = color.map(each => each / 255).map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
function isShown(element) {
  const style = getComputedStyle(element);
  return element.getClientRects().length > 0 && style.visibility === 'visible' && style.clipPath !== 'inset(50%)';
}
const isInside = (element, selector) => element.closest(selector) !== null;
const describe = element => element.outerHTML.slice(0, 120);
function nameOf(element) {
  const ids = (element.getAttribute('aria-labelledby') ?? '').split(' ').filter(Boolean);
  const labelled = ids.map(id => document.getElementById(id)?.textContent ?? '').join(' ');
  const label = [...(element.labels ?? [])].map(each => each.textContent).join(' ');
  const images = [...element.querySelectorAll('img')].map(each => each.alt).join(' ');
  return [labelled, element.getAttribute('aria-label'), label, element.textContent, images, element.title]
    .map(each => (each ?? '').trim()).find(Boolean) ?? '';
}

function accessibilityProblems() {
  const found = [];
  const say = (rule, element) => found.push(`${rule}: ${describe(element)}`);
  const all = [...document.querySelectorAll('body *')];
  const controls = [...document.querySelectorAll('a[href], button, input, select, textarea, [tabindex="0"]')].filter(isShown);

  if (!document.documentElement.lang) found.push('the page has no language');
  if (!document.title) found.push('the page has no title');
  if (/user-scalable=no|maximum-scale/.test(document.querySelector('meta[name=viewport]').content)) found.push('zoom is forbidden');

  for (const each of controls) if (!nameOf(each)) say('no name', each);
  for (const each of document.querySelectorAll('img')) if (!each.hasAttribute('alt')) say('no alternative text', each);
  for (const each of document.querySelectorAll('svg'))
    if (each.getAttribute('aria-hidden') !== 'true' && !(each.getAttribute('role') === 'img' && nameOf(each))) say('a graphic without a name', each);
  for (const each of document.querySelectorAll('[tabindex]')) if (Number(each.getAttribute('tabindex')) > 0) say('an own order of focus', each);
  for (const each of controls) if (isInside(each, '[aria-hidden="true"]')) say('a hidden control takes the focus', each);

  const ids = new Set();
  for (const each of document.querySelectorAll('[id]')) {
    if (ids.has(each.id)) say('an id occurs twice', each);
    ids.add(each.id);
  }
  for (const attribute of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for'])
    for (const each of document.querySelectorAll(`[${attribute}]`))
      for (const id of each.getAttribute(attribute).split(' ')) if (!ids.has(id)) say(`${attribute} names an absent element`, each);

  const parents = {
    row: '[role=table], [role=grid], [role=rowgroup]', cell: '[role=row]', columnheader: '[role=row]', rowheader: '[role=row]', listitem: '[role=list]',
  };
  const known = new Set([...Object.keys(parents), 'table', 'rowgroup', 'list', 'status', 'alert', 'search', 'img', 'dialog', 'region', 'group']);
  for (const each of document.querySelectorAll('[role]')) {
    const role = each.getAttribute('role');
    if (!known.has(role)) say('an unknown role', each);
    else if (parents[role] && !each.parentElement.closest(parents[role])) say('the parent of the role is absent', each);
  }
  for (const each of document.querySelectorAll('[role=table], [role=list]')) if (!nameOf(each)) say('no name', each);
  for (const each of document.querySelectorAll('li')) if (!isInside(each, 'ul, ol')) say('an item without a list', each);
  for (const each of document.querySelectorAll('dt, dd')) if (!isInside(each, 'dl')) say('an item without a list', each);
  for (const each of document.querySelectorAll('ul, ol, dl'))
    for (const child of each.children) if (!/^(LI|DT|DD|DIV)$/.test(child.tagName)) say('not an item', child);
  for (const each of document.querySelectorAll('[aria-sort]'))
    if (!['none', 'ascending', 'descending', 'other'].includes(each.getAttribute('aria-sort'))) say('an invalid value', each);

  const headings = [...document.querySelectorAll('h1, h2, h3, h4')].filter(isShown);
  if (headings.filter(each => each.tagName === 'H1').length !== 1) found.push(`${headings.map(each => each.textContent)} are the headings: not one h1`);
  headings.reduce((before, each) => {
    const level = Number(each.tagName[1]);
    if (level > before + 1) say('a level of headings is left out', each);
    return level;
  }, 0);

  for (const each of document.querySelectorAll('table')) {
    if (!each.tHead || [...each.tHead.rows[0].cells].some(cell => cell.tagName !== 'TH' || cell.scope !== 'col')) say('columns without headers', each);
    if (!each.caption?.textContent && !each.getAttribute('aria-label') && !each.closest('section')?.querySelector('h2')) say('a table without a name', each);
  }

  for (const each of document.querySelectorAll('section, nav, main, header, dialog'))
    if (each.tagName === 'SECTION' && each.hasAttribute('aria-label') && !nameOf(each)) say('a landmark without a name', each);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || seen.has(element) || !isShown(element)) continue;
    seen.add(element);
    if (!isInside(element, 'header, nav, main, section, dialog, .skip')) say('a text outside of landmarks', element);
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const below = background(element);
    const ratio = contrast(over(rgba(style.color), below), below);
    if (ratio < (isLarge ? 3 : 4.5) && !element.closest(':disabled')) say(`contrast ${ratio.toFixed(2)}`, element);
  }
  for (const each of controls.filter(each => /^(BUTTON|INPUT|SELECT|TEXTAREA)$/.test(each.tagName))) {
    const style = getComputedStyle(each);
    if (style.borderTopStyle === 'none' || parseFloat(style.borderTopWidth) === 0 || each.closest('th, .heat')) continue;
    const below = background(each.parentElement);
    const ratio = contrast(over(rgba(style.borderTopColor), below), below);
    if (ratio < 3) say(`contrast of the border ${ratio.toFixed(2)}`, each);
  }

  const boxes = controls.map(each => [each, each.getBoundingClientRect()]);
  for (const [each, box] of boxes) {
    if ((box.width >= 24 && box.height >= 24) || each.getAttribute('tabindex') === '0') continue;
    const inText = getComputedStyle(each).display === 'inline' && each.parentElement.textContent.trim() !== each.textContent.trim();
    if (inText) continue;
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const isClose = ([other, place]) => other !== each && !other.contains(each)
      && Math.hypot(Math.max(place.left - x, 0, x - place.right), Math.max(place.top - y, 0, y - place.bottom)) < 12;
    if (boxes.some(isClose)) say(`a target of ${Math.round(box.width)} by ${Math.round(box.height)}`, each);
  }
  return found;
}

function focusProblems() {
  const element = document.activeElement;
  if (!element || element === document.body) return ['nothing has the focus'];
  const found = [];
  if (!isShown(element)) return [`the focus is not visible: ${describe(element)}`];
  const style = getComputedStyle(element);
  if (element.tagName !== 'MAIN') {
    if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) found.push(`no mark of the focus: ${describe(element)}`);
    else if (contrast(rgba(style.outlineColor), background(element.parentElement)) < 3) found.push(`contrast of the focus: ${describe(element)}`);
  }
  const box = element.getClientRects()[0];
  const x = Math.min(Math.max(box.left + 3, 1), innerWidth - 2), y = Math.min(Math.max(box.top + box.height / 2, 1), innerHeight - 2);
  const top = document.elementFromPoint(x, y);
  if (box.bottom <= 0 || box.top >= innerHeight) found.push(`the focus is out of view: ${describe(element)}`);
  else if (top && !element.contains(top) && !top.contains(element) && !top.closest('label')) found.push(`the focus is covered by ${describe(top)}: ${describe(element)}`);
  return found;
}
