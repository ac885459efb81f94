// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';

import { build, node, patch } from './dom';
import { corners, scalars } from './sparkline';

describe('the tree', () => {
  it('puts text in as text, and no address that acts', () => {
    const hostile = '<img src=x onerror=alert(1)>';
    const link = node('a', 'link', { href: 'javascript:alert(1)' }, hostile);
    const made = build(node('div', '', {}, hostile, link)) as HTMLElement;
    expect(made.querySelector('img')).toBeNull();
    expect(made.textContent).toBe(hostile + hostile);
    expect(made.querySelector('a')!.hasAttribute('href')).toBe(false);
  });

  it('changes what differs, and nothing else', () => {
    const tree = (word: string, more: boolean) =>
      node(
        'div',
        '',
        {},
        node('details', '', {}, 'kept'),
        word,
        more ? node('b', '', {}, 'x') : null
      );
    const made = build(tree('one', false)) as HTMLElement;
    const details = made.firstChild as HTMLDetailsElement;
    details.setAttribute('open', ''); // the reader did
    patch(made, tree('one', false), tree('two', true));
    expect(made.firstChild).toBe(details);
    expect(details.open).toBe(true);
    expect(made.outerHTML).toBe('<div><details open="">kept</details>two<b>x</b></div>');
    patch(made, tree('two', true), tree('one', false));
    expect(made.querySelector('b')).toBeNull();
  });
});

describe('sparklines', () => {
  it('stay within their area, also for one point, equal points and no numbers', () => {
    for (const points of [
      [[0, 1]],
      [
        [0, 2],
        [9, 2]
      ],
      [
        [1, -5],
        [2, NaN],
        [3, 1e300]
      ]
    ] as const) {
      for (const [x, y] of corners(points.map(([a, b]) => [a, b]))) {
        expect(x >= 0 && x <= 120 && y >= 0 && y <= 26).toBe(true);
      }
    }
    expect(corners([[0, NaN]])).toEqual([]);
  });

  it('are not there without scalars', () => {
    expect(scalars(undefined)).toBeNull();
    expect(scalars({ loss: [] })).toBeNull();
    const made = build(
      scalars({
        loss: [
          [1, 2],
          [5, 0.25]
        ]
      })!
    ) as HTMLElement;
    expect(made.textContent).toBe('loss0.25');
    expect(made.querySelector('polyline')).not.toBeNull();
  });
});
