// @vitest-environment jsdom
import { describe, expect, it, vi } from 'vitest';

import { SearchBar } from './bar';

describe('SearchBar', () => {
  it('has buttons with words for names', () => {
    const step = vi.fn();
    const bar = new SearchBar(vi.fn(), step, vi.fn());
    const buttons = [...bar.node.querySelectorAll('button')];
    const names = buttons.map(each => each.getAttribute('aria-label'));
    expect(names).toEqual(['Previous', 'Next', 'Close']);
    expect(buttons.map(each => each.title)).toEqual([
      'Previous (Shift+Enter)',
      'Next (Enter)',
      'Close (Esc)'
    ]);
    buttons[0].click();
    buttons[1].click();
    expect(step.mock.calls).toEqual([[-1], [1]]);
  });

  it('does not look again for what Enter has looked for', () => {
    vi.useFakeTimers();
    const [find, step] = [vi.fn(), vi.fn()];
    const bar = new SearchBar(find, step, vi.fn());
    bar.input.dispatchEvent(new Event('input'));
    bar.input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
    vi.runAllTimers();
    vi.useRealTimers();
    expect([find.mock.calls.length, step.mock.calls]).toEqual([0, [[1]]]);
  });
});
