/** Scalars of a training as small curves. */

import { type Element, node } from './dom';
import { measured } from '../words';

export type Points = [number, number][];

const [WIDTH, HEIGHT, EDGE] = [120, 26, 2];
const MOST = 8;

/** The curve's corners in an area of 120 by 26; a gap where a value is no number. */
export function corners(points: Points): [number, number][] {
  const real = points.filter(([step, value]) => Number.isFinite(step) && Number.isFinite(value));
  if (!real.length) {
    return [];
  }
  const range = (values: number[]): [number, number] => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return [low, high - low];
  };
  const [first, steps] = range(real.map(([step]) => step));
  const [low, height] = range(real.map(([, value]) => value));
  return real.map(([step, value]) => [
    EDGE + (steps ? (step - first) / steps : 1) * (WIDTH - 2 * EDGE),
    HEIGHT - EDGE - (height ? (value - low) / height : 0.5) * (HEIGHT - 2 * EDGE)
  ]);
}

function curve(tag: string, points: Points): Element {
  const last = points[points.length - 1];
  const drawn = corners(points);
  const [x, y] = drawn[drawn.length - 1] ?? [0, 0];
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: `${WIDTH}px`, 'aria-hidden': 'true' };
  const path = drawn.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(' ');
  const picture: Element = {
    tag: 'svg',
    attributes: { ...box, class: 'smc-curve' },
    children: [
      { tag: 'polyline', attributes: { points: path }, children: [] },
      {
        tag: 'circle',
        attributes: { cx: x.toFixed(1), cy: y.toFixed(1), r: drawn.length ? '2' : '0' },
        children: []
      }
    ]
  };
  const told = `${tag}: ${measured(last[1])} at step ${last[0].toLocaleString('en')}`;
  return node(
    'li',
    'scalar',
    { title: `${told}, from ${measured(points[0][1])}` },
    node('span', 'tag', {}, tag),
    picture,
    node('span', 'value', {}, measured(last[1]))
  );
}

/** All curves of a job; null where it has none. */
export function scalars(found: Record<string, Points> | undefined): Element | null {
  const tags = Object.entries(found ?? {}).filter(([, points]) => points.length);
  if (!tags.length) {
    return null;
  }
  const more = tags.length > MOST ? node('li', 'quiet', {}, `… ${tags.length - MOST} more`) : null;
  const list = tags.slice(0, MOST).map(([tag, points]) => curve(tag, points));
  return node('ul', 'scalars', { 'aria-label': 'scalars' }, ...list, more);
}
