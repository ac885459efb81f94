import { describe, expect, it } from 'vitest';

import { timeText, wholeTime } from './times';

describe('timeText', () => {
  it('counts from where the code began', () => {
    const since = (seconds: number) => timeText(1000 + seconds, 'since', 1000);
    expect([0, 9.96, 75.34, 3723.4].map(since)).toEqual([
      '0:00.0',
      '0:10.0',
      '1:15.3',
      '1:02:03.4'
    ]);
    expect(since(-1)).toBe('0:00.0'); // another host's clock
  });

  it('tells the clock, and the whole date to who points at it', () => {
    const at = new Date(2025, 2, 14, 15, 9, 26, 530).getTime() / 1000;
    expect(timeText(at, 'clock', null)).toBe('15:09:26.5');
    expect(wholeTime(at)).toContain('14/03/2025, 15:09:26');
  });

  it('says nothing of what nobody knows or wants', () => {
    expect([timeText(null, 'clock', 1), timeText(5, '', 1), timeText(5, 'since', null)]).toEqual([
      '',
      '',
      ''
    ]);
    expect(wholeTime(null)).toBe('');
  });
});
