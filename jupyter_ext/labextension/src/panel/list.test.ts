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
    final: false,
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

  it('selects several by keys and mouse, of which no shortcut takes one', () => {
    list.update(['a', 'b', 'c', 'd'].map(id => row(id)));
    const click = (id: string, more: MouseEventInit = {}) => {
      const event = new MouseEvent('mousedown', { bubbles: true, cancelable: true, ...more });
      list.rows.get(id)!.dispatchEvent(event);
      return list.selections.join('');
    };
    const shown = () => list.node.querySelectorAll('[aria-selected=true]').length;
    expect(click('b')).toBe('b');
    expect(click('d', { ctrlKey: true })).toBe('bd');
    expect([shown(), list.selection, list.node.dataset.submarineJob]).toEqual([2, 'd', undefined]);
    expect(click('b', { metaKey: true })).toBe('d');
    expect(list.node.dataset.submarineJob).toBe('d');
    expect(click('d', { ctrlKey: true })).toBe('d'); // one stays
    expect(click('b', { shiftKey: true })).toBe('bcd');
    expect(click('c', { button: 2 })).toBe('bcd'); // the menu is about all of them
    expect(click('a', { button: 2 })).toBe('a');
    press('ArrowDown', { shiftKey: true });
    press('ArrowDown', { shiftKey: true });
    expect(list.selections.join('')).toBe('abc');
    list.update(['b', 'c', 'e'].map(id => row(id)));
    expect(list.selections.join('')).toBe('bc');
    list.update([row('b'), row('e')]);
    expect([list.selections.join(''), list.selection, shown()]).toEqual(['b', 'b', 1]);
    press('End');
    expect(list.selections.join('')).toBe('e');
  });

  it('shows text as text', () => {
    list.update([row('a', { name: '<img src=x>', facts: ['<b>x</b>'], reason: '<i>' })]);
    expect(list.node.querySelectorAll('img, b, i')).toHaveLength(0);
    expect(list.node.textContent).toContain('<img src=x>');
  });
});
