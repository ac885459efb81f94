// @vitest-environment jsdom
import { expect, it } from 'vitest';

import { build, patch, tick, type Tree } from '../../../../magics/submarine_magics/card/tree.js';

const stage = (text: string, seconds?: string): Tree => {
  const ticks: Record<string, string> = seconds ? { 'data-ticks': seconds } : {};
  return [
    'div',
    {},
    [
      ['span', ticks, [text]],
      ['span', { ...ticks, grow: '16000' }, []]
    ]
  ];
};

it('shows what a time came to, also where that is what it was when it was told last', () => {
  const node = build(stage('16 s', '16')) as HTMLElement;
  const [text, bar] = [...node.querySelectorAll('span')];
  tick(node, 4);
  expect([text.textContent, bar.style.flexGrow]).toEqual(['20 s', '20000']);
  patch(node, stage('16 s', '16'), stage('16 s'));
  expect([text.textContent, bar.style.flexGrow]).toEqual(['16 s', '16000']);
});

it('lets no name of a tree take the place of what the page has', () => {
  const named = (tag: string): Tree => [tag, { name: 'body' }, []];
  const tree: Tree = ['div', {}, ['form', 'button', 'g', 'input', 'textarea'].map(named)];
  const node = build(tree) as HTMLElement;
  const names = [...node.querySelectorAll('[name]')].map(each => each.localName);
  expect(names).toEqual(['input', 'textarea']);
});
