/** Charts as plain data: which lines stand in which chart, at which times, in which words. */

import uPlot from 'uplot';

import type { ChartLine, JobMetrics } from '../types';
import { size, visible } from '../words';

export interface Source {
  /** What its lines are called where there are several jobs. */
  name: string;
  told: JobMetrics;
}

export interface Curve {
  label: string;
  /** Which of the colours; lines of one job have one where there are several jobs. */
  colour: number;
  /** Whether it is another line of a job that has one already. */
  dashed: boolean;
  /** Whether the least and the greatest stand behind the mean. */
  ranged: boolean;
}

export interface Drawing {
  key: string;
  name: string;
  unit: string;
  curves: Curve[];
  /** Times, and then of each curve its numbers: mean, and where it is ranged least and most. */
  data: uPlot.AlignedData;
}

/** A chart for each number; of several jobs over each other, from where each began. */
export function drawings(sources: Source[], aligned: boolean): Drawing[] {
  const several = sources.length > 1;
  const found = new Map<string, { drawing: Drawing; tables: uPlot.AlignedData[] }>();
  const reported = new Set<string>();
  sources.forEach(({ name, told }, number) => {
    for (const chart of told.charts) {
      const key = `${chart.reported ? 'reported' : 'used'}:${chart.name}`;
      const words = visible(chart.name, 60);
      const drawing = { key, name: words, unit: chart.unit, curves: [], data: [[]] as never };
      const one = found.get(key) ?? { drawing, tables: [] };
      found.set(key, one);
      if (chart.reported) {
        reported.add(key);
      }
      chart.lines.forEach((line, which) => {
        if (!line.at.length) {
          return;
        }
        const part = visible(line.label, 60);
        const label = !several ? part : chart.lines.length > 1 ? `${name} ${part}` : name;
        const colour = several ? number : one.drawing.curves.length;
        const dashed = several && which > 0;
        one.drawing.curves.push({ label, colour, dashed, ranged: line.low.length > 0 });
        one.tables.push(table(line, aligned ? told.began : 0));
      });
    }
  });
  const all = [...found.entries()].filter(([, { tables }]) => tables.length);
  const first = all.filter(([key]) => reported.has(key));
  const rest = all.filter(([key]) => !reported.has(key));
  return [...first, ...rest].map(([, { drawing, tables }]) => ({
    ...drawing,
    data: uPlot.join(tables)
  }));
}

function table(line: ChartLine, zero: number): uPlot.AlignedData {
  const at = line.at.map(each => each - zero);
  return line.low.length ? [at, line.mean, line.low, line.high] : [at, line.mean];
}

/** Whether two drawings differ in nothing but their numbers. */
export function isAlike(one: Drawing, other: Drawing): boolean {
  const key = ({ name, unit, curves }: Drawing) => JSON.stringify([name, unit, curves]);
  return key(one) === key(other);
}

/** Where the mean of each curve stands in the data. */
export function places(curves: Curve[]): number[] {
  let next = 1;
  return curves.map(({ ranged }) => {
    const place = next;
    next += ranged ? 3 : 1;
    return place;
  });
}

/** The last number of a column; null where there is none. */
export function last(column: ArrayLike<number | null | undefined>): number | null {
  for (let at = column.length - 1; at >= 0; at--) {
    const value = column[at];
    if (value !== undefined) {
      return value;
    }
  }
  return null;
}

/** A number as people read it: `93 %`, `1.2 GB/s`, `0.0313`. */
export function amount(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) {
    return '—';
  }
  switch (unit) {
    case 'B':
      return size(Math.round(value));
    case 'B/s':
      return `${size(Math.round(value))}/s`;
    case '%':
      return `${Math.round(value)} %`;
    case 'cores':
      return `${Number(value.toPrecision(3))}`;
    default:
      return `${Number(value.toPrecision(4))}`;
  }
}

/** A number beside the axis, where there is little room: `0`, `150 B/s`. */
export function mark(value: number, unit: string): string {
  return value ? amount(value, unit).replace(' bytes', ' B') : '0';
}

/** From where to where a chart reaches: from 0 on, but for what code reports. */
export function reach(least: number | null, most: number | null, unit: string): [number, number] {
  if (unit === '%') {
    return [0, 100];
  }
  const [low, high] = [least ?? 0, most ?? 1];
  if (unit) {
    return [0, high > 0 ? high * 1.1 : 1];
  }
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room];
}

const two = (number: number) => String(number).padStart(2, '0');

/** A moment on the axis below a span of so many seconds. */
export function tick(seconds: number, span: number, aligned: boolean): string {
  if (aligned) {
    return `${seconds < 0 ? '−' : ''}${elapsed(Math.abs(Math.round(seconds)))}`;
  }
  const at = new Date(seconds * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (span > 2 * 86_400) {
    return at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
  }
  return span > 900 ? time : `${time}:${two(at.getSeconds())}`;
}

/** `0:05`, `12:00`, `1:30:00`, `3 d 4 h`. */
function elapsed(seconds: number): string {
  const [minutes, hours] = [Math.floor(seconds / MINUTE), Math.floor(seconds / HOUR)];
  if (seconds >= 2 * DAY) {
    return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }
  const rest = `${two(minutes % 60)}:${two(seconds % 60)}`;
  return hours ? `${hours}:${rest}` : rest.replace(/^0/, '');
}

const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];

/** Steps between two marks on the axis of times. */
export const STEPS = [
  ...[0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map(each => each * MINUTE),
  ...[1, 2, 3, 6, 12].map(each => each * HOUR),
  ...[1, 2, 5, 7, 14, 30, 60, 180, 365].map(each => each * DAY)
];
