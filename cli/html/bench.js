// Draws the plots as inline SVG from the figures of `mla bench --json`.
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const timed = data.figures.filter(figure => figure.share_median != null);
const rows = [...new Set(timed.map(figure => figure.row))];
const colour = row => `var(--c${rows.indexOf(row) % 8})`;
const hidden = new Set();
const percent = share => `${(share * 100).toFixed(1)} %`;
const shown = () => rows.filter(row => !hidden.has(row));
const one = (row, shape, threads = 1) =>
  timed.find(f => f.row === row && f.shape === shape && f.threads === threads);

const svgNode = (tag, attributes, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text != null) node.textContent = text;
  return node;
};
const element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
function withTip(node, text) {
  const tip = byId('tip');
  node.addEventListener('mousemove', event => {
    tip.textContent = text;
    tip.style.opacity = 1;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  node.addEventListener('mouseleave', () => { tip.style.opacity = 0; });
  return node;
}
const describe = figure => `${figure.row}, ${figure.shape}, ${figure.threads} thread` +
  `${figure.threads > 1 ? 's' : ''}\nmedian ${percent(figure.share_median)}, best ` +
  `${percent(figure.share_best)} of its probe\n${figure.samples} samples, ${figure.clock}`;
const nothing = place =>
  byId(place).replaceChildren(element('p', { class: 'note' }, 'Not measured in this run.'));

// A frame with horizontal grid lines; y(value) and the drawing area come back.
function frame(width, height, top, unit, left = 52) {
  const svg = svgNode('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img' });
  const area = { left, right: width - 150, top: 14, bottom: height - 30 };
  const y = value => area.bottom - (value / top) * (area.bottom - area.top);
  const step = [0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 4, 8, 16].find(s => top / s <= 6) ?? top / 4;
  for (let value = 0; value <= top + 1e-9; value += step) {
    svg.append(svgNode('line', { class: 'axis', x1: area.left, x2: area.right, y1: y(value),
      y2: y(value) }));
    svg.append(svgNode('text', { x: area.left - 8, y: y(value) + 4, 'text-anchor': 'end' },
      unit(value)));
  }
  return { svg, area, y };
}
const wholePercent = value => `${Math.round(value * 100)} %`;
const roofOf = shares => Math.min(1.2, Math.max(0.2, Math.ceil(Math.max(...shares) * 10) / 10));

// Labels at the right end of lines, moved apart where they would overlap.
function endLabels(svg, labels, x) {
  labels.sort((a, b) => a.y - b.y);
  let last = -Infinity;
  for (const label of labels) {
    last = Math.max(label.y, last + 15);
    svg.append(svgNode('text', { x: x + 10, y: last + 4, style: `fill:${label.colour}`,
      'font-weight': 600 }, label.text));
  }
}

function lines(place, { series, width, height, top, unit, xs, xOf, dots, ideal }) {
  const { svg, area, y } = frame(width, height, top, unit);
  const inner = area.right - area.left - 30;
  const x = value => area.left + 15 + xOf(value) * inner;
  for (const value of xs) {
    svg.append(svgNode('text', { x: x(value), y: area.bottom + 20, 'text-anchor': 'middle' },
      value.toLocaleString('en')));
  }
  if (ideal) {
    svg.append(svgNode('path', { class: 'ideal', d: xs.map((value, i) =>
      `${i ? 'L' : 'M'}${x(value)},${y(ideal(value))}`).join('') }));
  }
  const labels = [];
  for (const { row, points } of series) {
    svg.append(svgNode('path', { fill: 'none', stroke: colour(row), 'stroke-width': 2.5,
      'stroke-linejoin': 'round', d: points.map((p, i) =>
        `${i ? 'L' : 'M'}${x(p.x)},${y(p.y)}`).join('') }));
    for (const point of points) {
      if (dots) svg.append(svgNode('circle', { cx: x(point.x), cy: y(point.best), r: 2.5,
        fill: colour(row), opacity: 0.6 }));
      svg.append(withTip(svgNode('circle', { cx: x(point.x), cy: y(point.y), r: 5,
        fill: colour(row), stroke: 'var(--card)', 'stroke-width': 1.5 }), point.tip));
    }
    const end = points[points.length - 1];
    labels.push({ y: y(end.y), text: row, colour: colour(row) });
  }
  endLabels(svg, labels, area.right - 12);
  byId(place).replaceChildren(svg);
}

function drawLength() {
  const prompts = f => f.threads === 1 && f.num_heads === 16 && f.requests.length === 1 &&
    f.requests[0].context === 0;
  const series = shown().map(row => ({ row, points: timed.filter(f => f.row === row && prompts(f))
    .map(f => ({ x: f.requests[0].new_tokens, y: f.share_median, best: f.share_best,
      tip: describe(f) })).sort((a, b) => a.x - b.x) })).filter(s => s.points.length > 0);
  if (series.length === 0) return nothing('length');
  const xs = [...new Set(series.flatMap(s => s.points.map(p => p.x)))].sort((a, b) => a - b);
  const low = Math.log2(xs[0]);
  const span = Math.max(Math.log2(xs[xs.length - 1]) - low, 1);
  lines('length', { series, width: 1120, height: 330, xs, dots: true, unit: wholePercent,
    top: roofOf(series.flatMap(s => s.points.map(p => p.best))),
    xOf: value => (Math.log2(value) - low) / span });
}

// Horizontal bars: [{label, share, best, colour, tip, value}]
function bars(place, entries) {
  if (entries.length === 0) return nothing(place);
  const width = 540;
  const lineHeight = 34;
  const left = 150;
  const roof = Math.max(...entries.map(e => e.best ?? e.share), 0.1) * 1.08;
  const svg = svgNode('svg', { viewBox: `0 0 ${width} ${entries.length * lineHeight + 6}`,
    role: 'img' });
  const scale = (width - left - 84) / roof;
  entries.forEach((entry, i) => {
    const top = i * lineHeight + 4;
    svg.append(svgNode('text', { x: left - 10, y: top + 17, 'text-anchor': 'end' }, entry.label));
    svg.append(withTip(svgNode('rect', { x: left, y: top + 2, height: 22, rx: 4,
      width: Math.max(entry.share * scale, 2), fill: entry.colour, opacity: entry.opacity ?? 1 }),
      entry.tip));
    let end = left + entry.share * scale;
    if (entry.best) {
      end = Math.max(end, left + entry.best * scale);
      svg.append(svgNode('line', { x1: left + entry.best * scale, x2: left + entry.best * scale,
        y1: top, y2: top + 26, stroke: entry.colour, 'stroke-width': 2 }));
    }
    svg.append(svgNode('text', { class: 'value', x: end + 9, y: top + 18 }, entry.value));
  });
  byId(place).replaceChildren(svg);
}

let currentShape = timed.some(f => f.shape === 'prompt-2048') ? 'prompt-2048' : timed[0]?.shape;
function drawRows() {
  const names = [...new Set(timed.map(f => f.shape))];
  byId('shapes').replaceChildren(...names.map(name => {
    const button = element('button', { 'aria-pressed': String(name === currentShape) }, name);
    button.onclick = () => { currentShape = name; drawRows(); };
    return button;
  }));
  bars('rows', shown().map(row => one(row, currentShape)).filter(Boolean).map(f => ({
    label: f.row, share: f.share_median, best: f.share_best, colour: colour(f.row),
    tip: describe(f), value: percent(f.share_median) })));
}

function drawUneven() {
  const entries = [];
  for (const row of shown()) {
    const uneven = one(row, 'uneven-8x');
    const even = one(row, 'even-8x');
    if (!uneven || !even) continue;
    const ratio = uneven.share_median / even.share_median;
    entries.push({ label: `${row} even`, share: even.share_median, colour: colour(row),
      opacity: 0.45, tip: describe(even), value: percent(even.share_median) });
    entries.push({ label: 'uneven', share: uneven.share_median, colour: colour(row),
      tip: describe(uneven), value: `${percent(uneven.share_median)}  ×${ratio.toFixed(2)}` });
  }
  bars('uneven', entries);
}

function drawContext() {
  const entries = [];
  for (const row of shown()) {
    const figures = timed.filter(f => f.row === row && f.threads === 1 &&
      f.requests.some(r => r.context > 0))
      .sort((a, b) => a.requests[0].new_tokens - b.requests[0].new_tokens);
    figures.forEach((f, i) => entries.push({
      label: `${i === 0 ? row + '  ' : ''}${f.requests[0].new_tokens}`, share: f.share_median,
      best: f.share_best, colour: colour(row), tip: describe(f), value: percent(f.share_median) }));
  }
  bars('context', entries);
}

function drawThreads() {
  const shape = 'prompt-2048';
  const series = shown().map(row => {
    const base = one(row, shape);
    return { row, points: timed.filter(f => f.row === row && f.shape === shape && base)
      .map(f => ({ x: f.threads, y: f.gflops_best / base.gflops_best, tip: describe(f) }))
      .sort((a, b) => a.x - b.x) };
  }).filter(s => s.points.length > 1);
  if (series.length === 0) return nothing('threads');
  const xs = [...new Set(series.flatMap(s => s.points.map(p => p.x)))].sort((a, b) => a - b);
  const most = xs[xs.length - 1];
  lines('threads', { series, width: 540, height: 280, xs, top: most,
    unit: value => `${value}×`, xOf: value => (value - xs[0]) / Math.max(most - xs[0], 1),
    ideal: value => value });
}

const headings = [['row', f => f.row], ['shape', f => f.shape], ['heads', f => f.num_heads],
  ['threads', f => f.threads], ['median', f => f.share_median], ['best', f => f.share_best],
  ['samples', f => f.samples], ['of tolerance', f => f.share_of_tolerance]];
let order = null;
function drawTable() {
  const figures = [...data.figures].filter(f => !hidden.has(f.row));
  if (order) {
    const key = f => headings[order.column][1](f) ?? -1;
    figures.sort((a, b) => order.sign * (key(a) > key(b) ? 1 : key(a) < key(b) ? -1 : 0));
  }
  const head = element('tr', {}, ...headings.map(([title], column) => {
    const cell = element('th', column > 1 ? { class: 'num' } : {}, title);
    cell.onclick = () => {
      order = { column, sign: order?.column === column ? -order.sign : column > 1 ? -1 : 1 };
      drawTable();
    };
    return cell;
  }));
  byId('figures').replaceChildren(element('thead', {}, head), element('tbody', {},
    ...figures.map(f => {
      const cell = (text, kind = 'num') => element('td', { class: kind }, String(text));
      const dot = element('span', { class: 'dot', style: `background:${colour(f.row)}` });
      const name = element('td', {}, dot, f.row);
      if (f.share_median == null) {
        return element('tr', {}, name, cell(f.shape, ''), cell(f.num_heads), cell(f.threads),
          element('td', { class: 'soft', colspan: 4 }, f.skipped ?? 'no probe'));
      }
      return element('tr', {}, name, cell(f.shape, ''), cell(f.num_heads), cell(f.threads),
        cell(percent(f.share_median)), cell(percent(f.share_best)), cell(f.samples),
        cell(f.share_of_tolerance == null ? '' : percent(f.share_of_tolerance)));
    })));
}

function drawAll() {
  drawLength(); drawRows(); drawUneven(); drawContext(); drawThreads(); drawTable();
}
for (const row of rows) {
  const button = element('button', {},
    element('span', { class: 'dot', style: `background:${colour(row)}` }), row);
  button.onclick = () => {
    if (hidden.has(row)) hidden.delete(row); else hidden.add(row);
    button.classList.toggle('off', hidden.has(row));
    drawAll();
  };
  byId('keys').append(button);
}
byId('facts').textContent = `${data.machine.cpu}, ${data.machine.usable_threads} usable threads; ` +
  `${data.dtype}, dims ${data.dims.join('/')}`;
byId('not-run').textContent = data.rows_not_run.length === 0 ? '' :
  'Not run here: ' + data.rows_not_run.map(r => `${r.row} (${r.why})`).join('; ');
drawAll();
