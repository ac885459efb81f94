// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from 'vitest';

import { JobList } from './list';
import type { Row } from './rows';

Element.prototype.scrollIntoView = () => undefined;

function row(id: string, more: Partial<Row> = {}): Row {
  return {
    id,
    glyph: '●',
    state: 'running',
    name: id,
    facts: ['local'],
    reason: '',
    elapsed: '1 s',
    progress: null,
    ticking: true,
    label: id,
    title: id,
    ...more
  };
}

describe('JobList', () => {
  let list: JobList;
  const ids = () => [...list.node.children].map(each => (each as HTMLElement).dataset.job);
  const press = (key: string, more: KeyboardEventInit = {}) =>
    list.node.dispatchEvent(
      new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more })
    );

  beforeEach(() => {
    list = new JobList();
    document.body.replaceChildren(list.node);
  });

  it('keeps rows, their order and the selection through updates', () => {
    list.update([row('b'), row('a')]);
    const kept = list.node.lastElementChild;
    list.select('a');
    list.update([row('c'), row('b'), row('a', { elapsed: '9 s' })]);
    expect(ids()).toEqual(['c', 'b', 'a']);
    expect(list.node.lastElementChild).toBe(kept);
    expect(list.selection).toBe('a');
    list.update([row('a'), row('c')]);
    expect(ids()).toEqual(['a', 'c']);
    list.update([row('c')]);
    expect(list.selection).toBe('');
    expect(list.node.hasAttribute('aria-activedescendant')).toBe(false);
    list.update([]);
    expect(ids()).toEqual([]);
  });

  it('goes by keys, and leaves chords to others', () => {
    list.update(['a', 'b', 'c'].map(id => row(id)));
    const after = (key: string) => {
      press(key);
      return list.selection;
    };
    expect(after('ArrowDown')).toBe('a');
    expect(after('ArrowDown')).toBe('b');
    expect(after('End')).toBe('c');
    expect(after('ArrowDown')).toBe('c');
    expect(after('Home')).toBe('a');
    expect(after('PageDown')).toBe('c');
    expect(press('ArrowUp', { ctrlKey: true })).toBe(true);
    expect(press('Enter')).toBe(true); // not taken: the command's shortcut is
    expect(list.selection).toBe('c');
    expect(list.node.dataset.submarineJob).toBe('c');
  });

  it('shows text as text', () => {
    list.update([row('a', { name: '<img src=x>', facts: ['<b>x</b>'], reason: '<i>' })]);
    expect(list.node.querySelectorAll('img, b, i')).toHaveLength(0);
    expect(list.node.textContent).toContain('<img src=x>');
  });
});
