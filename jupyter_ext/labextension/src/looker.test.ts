// @vitest-environment jsdom
import { DisposableDelegate } from '@lumino/disposable';
import { expect, it } from 'vitest';

import { Looker } from './looker';

function page(visibility: 'visible' | 'hidden'): void {
  Object.defineProperty(document, 'visibilityState', { value: visibility, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}

it('asks only while somebody looks at a page that is seen', () => {
  let readers = 0;
  const watchOverview = () => {
    readers += 1;
    return new DisposableDelegate(() => (readers -= 1));
  };
  page('visible');
  const looker = new Looker({ watchOverview });
  expect(readers).toBe(0);
  looker.looking = true;
  looker.looking = true;
  expect(readers).toBe(1);
  page('hidden');
  expect(readers).toBe(0);
  page('visible');
  expect(readers).toBe(1);
  looker.looking = false;
  expect(readers).toBe(0);
  page('hidden');
  looker.looking = true;
  expect(readers).toBe(0);
  page('visible');
  expect(readers).toBe(1);
  looker.dispose();
  page('hidden');
  page('visible');
  expect(readers).toBe(0);
});
