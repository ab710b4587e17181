// Draws the grid of models by platforms and, for the cell that was clicked, every reason.
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'onclick') node.onclick = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};
const fullName = (backend, variant) => variant ? `${backend}:${variant}` : backend;
const backends = [...new Set(data.cells.map(cell => cell.selected ?? 'none'))]
  .sort((a, b) => (a === 'none') - (b === 'none') || a.localeCompare(b));
const tint = backend => backend === 'none' ? 'var(--c7)' : `var(--c${backends.indexOf(backend) % 7})`;
const cellOf = new Map(data.cells.map(cell => [cell.model + '\n' + cell.platform, cell]));
const families = { here: 'this one', cuda: 'NVIDIA', rocm: 'AMD Instinct', cpu: 'CPU' };
const familyOf = platform => platform.id === 'here' ? 'here' : platform.platform;
const starts = platform => {
  const index = data.platforms.indexOf(platform);
  return index > 0 && familyOf(data.platforms[index - 1]) !== familyOf(platform);
};

function explainCommand(model, platform) {
  const words = ['mla', 'explain', '--model', model.name, '--dtype', model.dtype];
  if (!platform.simulated) return words.join(' ');
  words.push('--platform', platform.platform);
  if (platform.capability) words.push('--capability', platform.capability.join('.'));
  if (platform.arch) words.push('--arch', platform.arch);
  if (platform.cpu) words.push('--cpu', `${platform.cpu.vendor}:${platform.cpu.isa.join(',')}`);
  return words.join(' ');
}

function showWhy(cell, model, platform) {
  document.querySelectorAll('.cell.open').forEach(node => node.classList.remove('open'));
  const panel = byId('why');
  panel.replaceChildren(
    element('h2', {}, `${model.name} on ${platform.title}`),
    element('p', { class: 'soft' }, `${model.dtype}, dims ${model.dims.join('/')}`));
  for (const refused of cell.rejected) {
    const list = element('ul');
    for (const reason of refused.reasons) list.append(element('li', {}, reason.text));
    panel.append(element('div', {}, element('b', {}, fullName(refused.backend, refused.variant)),
      element('span', { class: 'bad' }, '  refused'), list));
  }
  panel.append(cell.selected
    ? element('div', {}, element('b', {}, fullName(cell.selected, cell.variant)),
      element('span', { class: 'good' }, '  chosen'))
    : element('div', { class: 'bad' }, cell.error.message));
  const command = explainCommand(model, platform);
  const copy = element('button', { onclick: () => {
    navigator.clipboard?.writeText(command);
    copy.textContent = 'Copied';
  } }, 'Copy');
  panel.append(element('div', { class: 'command' }, element('code', {}, command), copy));
}

function draw(filter) {
  const shown = data.models.filter(model =>
    `${model.name} ${model.dims.join('/')} ${model.dtype}`.includes(filter));
  const head = element('thead');
  const familyRow = element('tr', {}, element('th'));
  const nameRow = element('tr', {}, element('th', {}, 'model'));
  for (const platform of data.platforms) {
    const edge = starts(platform) ? 'start' : '';
    if (edge || platform === data.platforms[0]) {
      const span = data.platforms.filter(p => familyOf(p) === familyOf(platform)).length;
      familyRow.append(element('th', { colspan: span, class: edge },
        element('div', { class: 'family' }, families[familyOf(platform)])));
    }
    nameRow.append(element('th', { class: edge, title: platform.title }, platform.id));
  }
  head.append(familyRow, nameRow);
  const body = element('tbody');
  for (const model of shown) {
    const row = element('tr', {}, element('th', { title: model.source }, model.name,
      element('small', {}, `${model.dims.join('/')}  ${model.dtype}`)));
    for (const platform of data.platforms) {
      const cell = cellOf.get(model.name + '\n' + platform.id);
      const name = cell.selected ?? 'none';
      const button = element('button', {
        class: 'cell', style: `--tint:${tint(name)}`, 'data-backend': name,
        title: `${model.name} on ${platform.title}`,
        onclick: () => { showWhy(cell, model, platform); button.classList.add('open'); },
      }, name.replaceAll('_', ' '));
      if (cell.variant) button.append(element('small', {}, cell.variant.replaceAll('_', ' ')));
      row.append(element('td', { class: starts(platform) ? 'start' : '' }, button));
    }
    body.append(row);
  }
  byId('grid').replaceChildren(element('table', {}, head, body));
  if (shown.length === 0) byId('grid').append(element('p', { class: 'soft' }, 'No such model.'));
}

function light(backend, button) {
  const on = button.getAttribute('aria-pressed') !== 'true';
  document.querySelectorAll('#legend button').forEach(b => b.setAttribute('aria-pressed', 'false'));
  button.setAttribute('aria-pressed', String(on));
  byId('grid').classList.toggle('faded', on);
  document.querySelectorAll('.cell').forEach(node =>
    node.classList.toggle('lit', node.dataset.backend === backend));
}

for (const backend of backends) {
  const count = data.cells.filter(cell => (cell.selected ?? 'none') === backend).length;
  const button = element('button', { 'aria-pressed': 'false', onclick: () => light(backend, button) },
    element('span', { class: 'dot', style: `background:${tint(backend)}` }),
    `${backend} `, element('span', { class: 'soft' }, String(count)));
  byId('legend').append(button);
}
byId('filter').oninput = event => {
  byId('grid').classList.remove('faded');
  document.querySelectorAll('#legend button').forEach(b => b.setAttribute('aria-pressed', 'false'));
  draw(event.target.value.trim().toLowerCase());
};
draw('');
document.querySelector('.cell')?.click();
