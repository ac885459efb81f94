// @vitest-environment jsdom
import { expect, it } from 'vitest';

import { type Around, Rows } from './rows';

it('draws a line anew that differs before its end alone', () => {
  const told = { text: '' };
  const around: Around = {
    line: () => ({ text: told.text, err: false, at: null }),
    top: () => 0,
    time: () => ({ text: '', whole: '' }),
    shown: () => ({ above: [], below: [] })
  };
  const ignore = () => undefined;
  const rows = new Rows(document.createElement('div'), 18, ignore, ignore);
  const tail = '.'.repeat(100);
  for (const text of [`10 %${tail}`, `20 %${tail}`]) {
    told.text = text;
    rows.draw(0, 1, around);
    expect(rows.node.textContent).toBe(text);
  }
  const [row] = rows.node.children;
  const [drawn] = row.childNodes;
  rows.draw(0, 1, around);
  expect(row.firstChild).toBe(drawn); // what has not changed stays
});
