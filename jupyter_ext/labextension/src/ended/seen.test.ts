// @vitest-environment jsdom
import { beforeEach, expect, it, vi } from 'vitest';

import { isSeen } from './seen';

beforeEach(() => {
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('visible');
  document.body.innerHTML =
    '<div class="submarine-Card" data-submarine-job="a" data-at="10"></div>' +
    '<div class="submarine-Flow" data-at="0"><g data-job="b" data-at="20"></g>' +
    '<g data-job="c" data-at="5000"></g></div>';
  // jsdom lays nothing out.
  Element.prototype.getBoundingClientRect = function (this: HTMLElement) {
    const [top, height] = [Number(this.dataset.at), this.matches('.submarine-Flow') ? 500 : 40];
    return { top, height, bottom: top + height } as DOMRect;
  };
});

it('sees cards and the nodes of flows, not what is scrolled away', () => {
  expect(['a', 'b', 'c', 'd'].map(isSeen)).toEqual([true, true, false, false]);
});

it('sees nothing in a page that nobody looks at', () => {
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
  expect(['a', 'b'].map(isSeen)).toEqual([false, false]);
});
