// Draws the crossover of `mla bench prefill --json` on logarithmic axes.
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const percent = share => `${(share * 100).toFixed(1)} %`;
const svgNode = (tag, attributes, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text != null) node.append(text);
  return node;
};
const points = data.points;
const contexts = [...new Set(points.map(p => p.context))];
const news = [...new Set(points.map(p => p.new_tokens))].sort((a, b) => a - b);
const width = 1120, height = 380, left = 60, right = width - 170, ceiling = 16, bottom = height - 46;
const ratios = points.map(p => p.absorbed_over_expanded);
const low = Math.floor(Math.log2(Math.min(...ratios, 0.5)));
const high = Math.ceil(Math.log2(Math.max(...ratios, 2)));
const spread = Math.max(Math.log2(news[news.length - 1] / news[0]), 1);
const x = value => left + 15 + Math.log2(value / news[0]) / spread * (right - left - 30);
const y = value => bottom - (Math.log2(value) - low) / (high - low) * (bottom - ceiling);
const svg = svgNode('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img' });
for (let power = low; power <= high; ++power) {
  const at = y(2 ** power);
  const line = { x1: left, x2: right, y1: at, y2: at, class: power === 0 ? 'ideal' : 'axis' };
  svg.append(svgNode('line', power === 0 ? { ...line, stroke: 'var(--soft)' } : line),
    svgNode('text', { x: left - 8, y: at + 4, 'text-anchor': 'end' },
      power < 0 ? `1/${2 ** -power}` : String(2 ** power)));
}
for (const value of news) {
  svg.append(svgNode('text', { x: x(value), y: bottom + 20, 'text-anchor': 'middle' },
    value.toLocaleString('en')));
}
svg.append(svgNode('text', { x: (left + right) / 2, y: height - 6, 'text-anchor': 'middle' },
  'new tokens'));
const ends = [];
contexts.forEach((context, i) => {
  const colour = `var(--c${i % 8})`;
  const line = points.filter(p => p.context === context)
    .sort((a, b) => a.new_tokens - b.new_tokens);
  svg.append(svgNode('path', { fill: 'none', stroke: colour, 'stroke-width': 2.5, d: line.map(
    (p, j) => `${j ? 'L' : 'M'}${x(p.new_tokens)},${y(p.absorbed_over_expanded)}`).join('') }));
  for (const p of line) {
    const dot = svgNode('circle', { cx: x(p.new_tokens), cy: y(p.absorbed_over_expanded), r: 5,
      fill: p.chosen === 'absorbed' ? colour : 'var(--card)', stroke: colour, 'stroke-width': 2 });
    dot.append(svgNode('title', {}, `${p.new_tokens} new over ${p.context}: absorbed takes ` +
      `${p.absorbed_over_expanded.toFixed(2)} times as long; chosen: ${p.chosen}`));
    svg.append(dot);
  }
  ends.push({ y: y(line[line.length - 1].absorbed_over_expanded), colour,
    text: `${context.toLocaleString('en')} of context` });
});
ends.sort((a, b) => a.y - b.y);
let last = -Infinity;
for (const end of ends) {
  last = Math.max(end.y, last + 16);
  svg.append(svgNode('text', { x: right + 4, y: last + 4, style: `fill:${end.colour}`,
    'font-weight': 600 }, end.text));
}
byId('crossover').replaceChildren(svg);

const titles = ['new', 'context', 'expanded, of peak', 'absorbed, of peak', 'absorbed / expanded',
  'chosen', 'loses'];
const row = (tag, cells) => {
  const node = document.createElement('tr');
  for (const text of cells) {
    const cell = document.createElement(tag);
    cell.className = 'num';
    cell.textContent = text;
    node.append(cell);
  }
  return node;
};
byId('points').append(row('th', titles), ...points.map(p => row('td', [
  p.new_tokens.toLocaleString('en'), p.context.toLocaleString('en'),
  percent(p.expanded.share_median), percent(p.absorbed.share_median),
  p.absorbed_over_expanded.toFixed(2), p.chosen, percent(p.loss)])));
byId('facts').textContent =
  `${data.row} on ${data.machine.cpu}; ${data.dtype}, ${data.num_heads} heads, 128/64/128`;
